package main

import (
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/spotbatch/spotbatch/internal/item"
)

// maxShown is the number of bytes of a payload that are shown.
const maxShown = 400

// showMessage prints the message of an item as it would be published.
func (a *app) showMessage(it item.Item) {
	attributes := it.Attributes()
	fmt.Fprintf(a.stdout, "message %s\n", it.ItemID)
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		fmt.Fprintf(a.stdout, "  %s: %s\n", name, attributes[name])
	}
	switch shown, more := it.Data, ""; {
	case len(it.Data) == 0:
	case !utf8.Valid(it.Data):
		fmt.Fprintf(a.stdout, "  data: %d bytes\n", len(it.Data))
	default:
		if len(shown) > maxShown {
			shown, more = shown[:maxShown], fmt.Sprintf("... (%d bytes)", len(it.Data))
		}
		fmt.Fprintf(a.stdout, "  data: %s%s\n", shown, more)
	}
}
