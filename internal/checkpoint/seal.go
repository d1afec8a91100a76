package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
)

// A snapshot is a line that says how long what follows is and what its
// checksum is, and the body.
const (
	magic  = "spotbatch-checkpoint 1 "
	header = magic + "%010d %08x\n"
)

// headerSize is the length of the line in bytes.
const headerSize = len(magic) + 10 + 1 + 8 + 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errTorn says that a snapshot was not written to its end, or was damaged.
var errTorn = errors.New("its length or checksum is wrong")

// seal puts the header before body.
func seal(body []byte) []byte {
	data := fmt.Appendf(make([]byte, 0, headerSize+len(body)), header, len(body), crc32.Checksum(body, castagnoli))
	return append(data, body...)
}

// unseal checks a snapshot and returns its body, or errTorn. Anything whose
// header is whole and of another kind is another error.
func unseal(data []byte) ([]byte, error) {
	known := min(len(data), len(magic))
	if string(data[:known]) != magic[:known] {
		if bytes.HasPrefix(data, []byte("spotbatch-checkpoint ")) {
			return nil, fmt.Errorf("its format %q is not known", bytes.SplitN(data, []byte("\n"), 2)[0])
		}
		return nil, errTorn
	}
	if len(data) < headerSize {
		return nil, errTorn
	}
	body := data[headerSize:]
	if !bytes.Equal(data[:headerSize], fmt.Appendf(nil, header, len(body), crc32.Checksum(body, castagnoli))) {
		return nil, errTorn
	}
	return body, nil
}
