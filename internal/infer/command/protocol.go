package command

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/worker"
)

// protocol is the version spoken here.
const protocol = 1

// Limits of what a child may say about itself or about an error.
const (
	maxVersion = 128  // characters; the column's width
	maxMessage = 2048 // bytes; the column's width
	maxExcerpt = 80   // bytes of a line that is not the protocol
)

// errLongLine is returned for a line above maxLine.
var errLongLine = fmt.Errorf("answer is longer than %d MiB", maxLine>>20)

// ready is the first line of a child.
type ready struct {
	Ready        bool   `json:"ready"`
	Protocol     int    `json:"protocol"`
	ModelVersion string `json:"model_version"`
	MaxBatch     int    `json:"max_batch"`
}

// parseReady reads the first line. A child that cannot serve may say so there
// instead, with a class: it is started again later, and a device that is not
// there ends the worker.
func parseReady(line []byte) (ready, error) {
	var r struct {
		ready
		Error *replyError `json:"error"`
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return ready{}, fmt.Errorf("%w: its first line must be {\"ready\":true,\"protocol\":%d}, it is %s; print anything else to standard error",
			errUnusable, protocol, excerpt(line))
	}
	switch {
	case r.Error != nil:
		return ready{}, r.Error.fail(batchClass, worker.ClassBatchError)
	case !r.Ready:
		return ready{}, fmt.Errorf(`%w: its first line must say "ready":true, it is %s`, errUnusable, excerpt(line))
	case r.Protocol != protocol:
		return ready{}, fmt.Errorf("%w: it speaks protocol %d, this worker speaks %d", errUnusable, r.Protocol, protocol)
	case r.MaxBatch < 0:
		return ready{}, fmt.Errorf("%w: it says max_batch %d", errUnusable, r.MaxBatch)
	case utf8.RuneCountInString(r.ModelVersion) > maxVersion || strings.ContainsFunc(r.ModelVersion, unicode.IsControl):
		return ready{}, fmt.Errorf("%w: its model_version %s has more than %d characters or a control character",
			errUnusable, excerpt([]byte(r.ModelVersion)), maxVersion)
	}
	return r.ready, nil
}

// encodeItem makes the item's part of a batch line.
//
// A JSON payload keeps every byte but one kind: a line break becomes a space,
// since it would end the line. In a JSON document a raw line break can only
// stand between tokens, so numbers, strings, key order and duplicate keys
// arrive as the dataset wrote them.
func encodeItem(it item.Item) ([]byte, error) {
	var b bytes.Buffer
	for _, field := range []struct{ before, value string }{
		{`{"run_id":`, it.RunID}, {`,"item_id":`, it.ItemID}, {`,"content_type":`, it.ContentType},
	} {
		b.WriteString(field.before)
		text, err := json.Marshal(field.value)
		if err != nil {
			return nil, fmt.Errorf("encode item: %w", err)
		}
		b.Write(text)
	}
	if it.IsJSON() {
		if err := checkJSON(it.Data); err != nil {
			return nil, fmt.Errorf("payload is not one JSON document: %w", err)
		}
		b.WriteString(`,"data":`)
		from := b.Len()
		b.Write(it.Data)
		for i, c := range b.Bytes()[from:] {
			if c == '\n' || c == '\r' {
				b.Bytes()[from+i] = ' '
			}
		}
	} else {
		b.WriteString(`,"data_b64":"`)
		b.Write(base64.StdEncoding.AppendEncode(b.AvailableBuffer(), it.Data))
		b.WriteByte('"')
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func checkJSON(data []byte) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return errors.New("it is empty")
	}
	if !utf8.Valid(data) {
		return errors.New("it is not valid UTF-8")
	}
	var whole json.RawMessage
	err := json.Unmarshal(data, &whole)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("%w at byte %d", err, syntax.Offset)
	}
	return err
}

// encodeBatch joins the parts into a line.
func encodeBatch(id string, batch []worker.Input) ([]byte, error) {
	size := 64
	for _, in := range batch {
		size += int(in.Bytes) + 1
	}
	line := make([]byte, 0, size)
	line = fmt.Appendf(line, `{"batch":"%s","items":[`, id)
	for i, in := range batch {
		part, ok := in.Value.([]byte)
		if !ok {
			return nil, worker.Failf(worker.ClassBatchError, "input of item %q was prepared by another runner", in.Item.ItemID)
		}
		if i > 0 {
			line = append(line, ',')
		}
		line = append(line, part...)
	}
	return append(line, "]}\n"...), nil
}

// readLine reads up to a newline, which it does not return. A line that ends
// without one is not returned: its writer died.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		chunk, err := r.ReadSlice('\n')
		if err == nil {
			chunk = chunk[:len(chunk)-1]
		} else if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, fmt.Errorf("read line: %w", err)
		}
		if len(line)+len(chunk) > limit {
			return nil, errLongLine
		}
		line = append(line, chunk...)
		if err == nil {
			return line, nil
		}
	}
}

// excerpt quotes the beginning of a line for an error or a log.
func excerpt(line []byte) string {
	rest := ""
	if len(line) > maxExcerpt {
		line, rest = line[:maxExcerpt], "..."
	}
	return fmt.Sprintf("%q", line) + rest
}

// message makes text of a child fit for rows and traces: valid UTF-8, no
// control characters, bounded.
func message(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	if len(text) <= maxMessage {
		return text
	}
	cut := maxMessage
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut]
}
