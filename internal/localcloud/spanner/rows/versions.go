package rows

import "github.com/tidwall/btree"

// version is what one commit made of a row.
type version struct {
	at    int64  // commit timestamp, in microseconds since 1970
	row   string // as encodeRow made it; empty for a deletion
	live  bool   // false: the commit deleted the row
	older *version
}

// asOf returns the version that a read at the timestamp sees, nil if the row did not exist then.
func (v *version) asOf(timestamp int64) *version {
	for v != nil && v.at > timestamp {
		v = v.older
	}
	if v == nil || !v.live {
		return nil
	}
	return v
}

// versions holds the rows of one table. Its DB's mutex guards it.
type versions struct {
	tree    btree.Map[string, *version]
	changed int64 // timestamp of the last commit that touched the table
}

func newVersions() *versions { return &versions{} }

// put makes v the newest version of the key and returns the one it replaced, if any.
func (vs *versions) put(key string, v *version) *version {
	vs.changed = v.at
	older, _ := vs.tree.Set(key, v)
	v.older = older
	return older
}

// latest returns the newest version of the key, nil if it was never written or is deleted.
func (vs *versions) latest(key string) *version {
	v, _ := vs.tree.Get(key)
	if v == nil || !v.live {
		return nil
	}
	return v
}

// ascend calls visit for the newest version of each key in the span, in order, until visit returns false.
func (vs *versions) ascend(span Span, visit func(key string, v *version) bool) {
	vs.tree.Ascend(span.From, func(key string, v *version) bool {
		return key < span.To && visit(key, v)
	})
}

// changedSince reports whether a commit after the timestamp wrote or deleted a row in the span.
func (vs *versions) changedSince(span Span, timestamp int64) bool {
	if vs.changed <= timestamp {
		return false
	}
	changed := false
	vs.ascend(span, func(_ string, v *version) bool {
		changed = v.at > timestamp
		return !changed
	})
	return changed
}

// superseded remembers that a version has hidden an older one, which nobody can read any more once the
// version retention has passed.
type superseded struct {
	data *versions
	key  string
	by   *version
}

// forget drops what by has hidden, and by itself if it is a deletion that still stands.
func (s superseded) forget() {
	s.by.older = nil
	if s.by.live {
		return
	}
	if v, _ := s.data.tree.Get(s.key); v == s.by {
		s.data.tree.Delete(s.key)
	}
}
