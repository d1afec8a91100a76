package dataset

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"slices"
)

// idSet finds IDs that occur twice. It keeps a hash of each ID, of 128 bits
// that nobody can foresee, and the number of its entry: in memory at first,
// then in a temporary file of 24 bytes an item. What it needs in memory is a
// few megabytes, and 1/256 of the file when duplicates looks at it.
type idSet struct {
	seeds [2]maphash.Seed
	temp  *tempFiles
	// parts hold the hashes with one first byte each.
	parts [256]idPart
	file  *os.File
	out   *bufio.Writer
	// blocks is the number of blocks that are in the file.
	blocks int64
}

type idPart struct {
	hashes []idHash
	// blocks are the numbers of its full blocks in the file.
	blocks []int64
}

// idHash is the hash of the ID of one entry.
type idHash struct {
	a, b   uint64
	number int64
}

const (
	idBytes     = 24
	blockHashes = 512
	blockBytes  = blockHashes * idBytes
)

func newIDSet(temp *tempFiles) *idSet {
	return &idSet{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, temp: temp}
}

// add adds the ID of an entry; numbers must ascend.
func (s *idSet) add(id string, number int64) error {
	h := idHash{maphash.String(s.seeds[0], id), maphash.String(s.seeds[1], id), number}
	part := &s.parts[h.a>>56]
	if len(part.hashes) == blockHashes {
		if err := s.flush(part); err != nil {
			return fmt.Errorf("write a temporary file (TMPDIR says where): %w", err)
		}
	}
	part.hashes = append(part.hashes, h)
	return nil
}

// flush moves the hashes of a part to the file.
func (s *idSet) flush(part *idPart) error {
	if s.file == nil {
		var err error
		if s.file, err = s.temp.create(); err != nil {
			return err
		}
		s.out = bufio.NewWriterSize(s.file, 256<<10)
	}
	var block [blockBytes]byte
	for i, h := range part.hashes {
		at := block[i*idBytes:]
		binary.LittleEndian.PutUint64(at, h.a)
		binary.LittleEndian.PutUint64(at[8:], h.b)
		binary.LittleEndian.PutUint64(at[16:], uint64(h.number))
	}
	part.blocks = append(part.blocks, s.blocks)
	part.hashes = part.hashes[:0]
	s.blocks++
	_, err := s.out.Write(block[:])
	return err
}

// duplicate is an entry whose ID an earlier entry has.
type duplicate struct{ number, first int64 }

// duplicates returns all, in the order of their numbers, and forgets
// everything.
func (s *idSet) duplicates() ([]duplicate, error) {
	defer s.close()
	if s.out != nil {
		if err := s.out.Flush(); err != nil {
			return nil, fmt.Errorf("write a temporary file (TMPDIR says where): %w", err)
		}
	}
	var found []duplicate
	for i := range s.parts {
		hashes, err := s.load(&s.parts[i])
		if err != nil {
			return nil, fmt.Errorf("read a temporary file: %w", err)
		}
		slices.SortFunc(hashes, compareHashes)
		for first, j := 0, 1; j < len(hashes); j++ {
			if hashes[j].a != hashes[first].a || hashes[j].b != hashes[first].b {
				first = j
				continue
			}
			found = append(found, duplicate{hashes[j].number, hashes[first].number})
		}
	}
	slices.SortFunc(found, func(x, y duplicate) int { return int(x.number - y.number) })
	return found, nil
}

func compareHashes(x, y idHash) int {
	switch {
	case x.a != y.a && x.a < y.a, x.a == y.a && x.b < y.b, x.a == y.a && x.b == y.b && x.number < y.number:
		return -1
	case x == y:
		return 0
	}
	return 1
}

// load returns all hashes of a part.
func (s *idSet) load(part *idPart) ([]idHash, error) {
	hashes := part.hashes
	*part = idPart{blocks: part.blocks}
	if len(part.blocks) == 0 {
		return hashes, nil
	}
	hashes = slices.Grow(hashes, len(part.blocks)*blockHashes)
	var block [blockBytes]byte
	for _, number := range part.blocks {
		if _, err := s.file.ReadAt(block[:], number*blockBytes); err != nil && err != io.EOF {
			return nil, err
		}
		for at := 0; at < blockBytes; at += idBytes {
			hashes = append(hashes, idHash{
				binary.LittleEndian.Uint64(block[at:]), binary.LittleEndian.Uint64(block[at+8:]),
				int64(binary.LittleEndian.Uint64(block[at+16:])),
			})
		}
	}
	part.blocks = nil
	return hashes, nil
}

func (s *idSet) close() {
	if s.file != nil {
		s.temp.release(s.file)
	}
	*s = idSet{}
}
