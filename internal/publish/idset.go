package publish

import (
	"hash/maphash"
	"slices"
)

// idSet finds IDs that occur twice in about 9 bytes an ID: it keeps a 64-bit
// hash of each, and nothing else. IDs whose hashes are equal are only suspects,
// and the caller compares them.
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

// suspects returns the hashes that were added more than once, and forgets all
// others.
func (s *idSet) suspects() map[uint64]bool {
	found := make(map[uint64]bool)
	for i, part := range s.parts {
		slices.Sort(part)
		for j := 1; j < len(part); j++ {
			if part[j] == part[j-1] {
				found[part[j]] = true
			}
		}
		s.parts[i] = nil
	}
	return found
}
