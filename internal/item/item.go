// Package item holds the unit of work: its identity, and how it travels in a
// Pub/Sub message. It imports nothing of the project, so that every other
// package can speak of items without knowing where they come from.
package item

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of identifiers. They follow from the primary key of the Results
// table: STRING(64) and STRING(256), the latter kept to bytes so that an ID
// also fits a Pub/Sub attribute whatever script it is written in.
const (
	MaxRunIDBytes  = 64
	MaxItemIDBytes = 256
)

// Attribute names of an item's message.
const (
	AttrRunID       = "run_id"
	AttrItemID      = "item_id"
	AttrContentType = "content_type"
	AttrURI         = "uri"
)

// ContentTypeJSON is the content type of rows.
const ContentTypeJSON = "application/json"

// ErrForeign means that a message does not say which item of which run it is,
// so that no result row can be written for it.
var ErrForeign = errors.New("not a spotbatch message")

// Key names one item: unique over all runs.
type Key struct {
	RunID  string
	ItemID string
}

// String returns run and item for logs, never for storage: it is not
// injective.
func (k Key) String() string { return k.RunID + "/" + k.ItemID }

// Check reports the first rule that the key breaks, or nil.
func (k Key) Check() error {
	if err := CheckRunID(k.RunID); err != nil {
		return err
	}
	return CheckItemID(k.ItemID)
}

// Item is one row, line or object of a dataset.
//
// Either Data holds the payload or URI points at it; an item with an empty
// payload of its own has neither. Data is never changed once an item exists,
// so that it can be shared between goroutines.
type Item struct {
	Key
	ContentType string
	URI         string
	Data        []byte
}

// IsJSON reports whether the payload is a JSON document.
func (it Item) IsJSON() bool {
	media, _, _ := strings.Cut(it.ContentType, ";")
	return strings.EqualFold(strings.TrimSpace(media), ContentTypeJSON)
}

// Attributes returns the attributes of the item's message; the caller owns the
// map. The message's data is it.Data.
func (it Item) Attributes() map[string]string {
	attrs := map[string]string{
		AttrRunID:       it.RunID,
		AttrItemID:      it.ItemID,
		AttrContentType: it.ContentType,
	}
	if it.URI != "" {
		attrs[AttrURI] = it.URI
	}
	return attrs
}

// Decode reads an item from a message. Unknown attributes are ignored, since
// trace context and dead-letter forwarding add their own.
//
// When run and item are not both present and valid the error wraps ErrForeign.
// On any other error the returned item has its Key, so that the failure can be
// recorded under it.
func Decode(data []byte, attrs map[string]string) (Item, error) {
	it := Item{
		Key:         Key{RunID: attrs[AttrRunID], ItemID: attrs[AttrItemID]},
		ContentType: attrs[AttrContentType],
		URI:         attrs[AttrURI],
		Data:        data,
	}
	if err := it.Check(); err != nil {
		return Item{}, fmt.Errorf("%w: %w", ErrForeign, err)
	}
	switch {
	case it.ContentType == "":
		return it, fmt.Errorf("message of item %q: attribute %s is missing", it.ItemID, AttrContentType)
	case it.URI != "" && len(data) > 0:
		return it, fmt.Errorf("message of item %q: has both data and attribute %s; exactly one may carry the payload", it.ItemID, AttrURI)
	}
	return it, nil
}

// CheckRunID reports the rule of run IDs that id breaks, or nil.
func CheckRunID(id string) error {
	if id == "" {
		return errors.New("run_id is empty")
	}
	if len(id) > MaxRunIDBytes {
		return fmt.Errorf("run_id %.20q... has %d bytes; at most %d are allowed", id, len(id), MaxRunIDBytes)
	}
	for i := range len(id) {
		c := id[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return fmt.Errorf("run_id %q has a character that is not one of a-z A-Z 0-9 . _ - at byte %d", id, i)
		}
	}
	return nil
}

// CheckItemID reports the rule of item IDs that id breaks, or nil.
func CheckItemID(id string) error {
	if id == "" {
		return errors.New("item_id is empty")
	}
	if len(id) > MaxItemIDBytes {
		return fmt.Errorf("item_id %.40q... has %d bytes; at most %d are allowed", id, len(id), MaxItemIDBytes)
	}
	if !utf8.ValidString(id) {
		return fmt.Errorf("item_id %q is not valid UTF-8", id)
	}
	for i, r := range id {
		if unicode.IsControl(r) {
			return fmt.Errorf("item_id %q has a control character at byte %d", id, i)
		}
	}
	return nil
}
