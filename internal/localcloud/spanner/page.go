package spanner

// maxPageSize is how many entries a list answers at once where the client names no number, and at most.
const maxPageSize = 1000

// page returns the entries behind the one that the token names, and the token for the ones after them, empty at
// the end. The entries are sorted by name.
func page[T any](entries []T, name func(T) string, size int32, token string) (some []T, next string) {
	for len(entries) > 0 && name(entries[0]) <= token {
		entries = entries[1:]
	}
	n := int(size)
	if n < 1 || n > maxPageSize {
		n = maxPageSize
	}
	if len(entries) <= n {
		return entries, ""
	}
	return entries[:n], name(entries[n-1])
}
