package publish

import (
	"hash/maphash"
	"slices"
)

// idSet knows IDs by a 64-bit hash of each, in about 9 bytes an ID. IDs whose
// hashes are equal are the same to it.
type idSet struct {
	seed maphash.Seed
	// parts are split by the top byte of the hash: each grows by a quarter of
	// itself, so that only 1/256 of the memory is ever held twice.
	parts [256][]uint64
}

func newIDSet() *idSet { return &idSet{seed: maphash.MakeSeed()} }

func (s *idSet) hash(id string) uint64 { return maphash.String(s.seed, id) }

func (s *idSet) add(id string) {
	h := s.hash(id)
	part := h >> 56
	s.parts[part] = append(s.parts[part], h)
}

// sort is called between the last add and the first has.
func (s *idSet) sort() {
	for _, part := range s.parts {
		slices.Sort(part)
	}
}

func (s *idSet) has(id string) bool {
	h := s.hash(id)
	_, found := slices.BinarySearch(s.parts[h>>56], h)
	return found
}
