package binlog

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Position is a place in the binary logs of a server: the offset of the next byte in a file.
type Position struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"`
}

func (p Position) String() string { return fmt.Sprintf("%s:%d", p.File, p.Offset) }

// FirstOffset is that of the first event of a file. Before it are four bytes that are the same in all files.
const FirstOffset = 4

// Number is the number at the end of a file's name. Servers count them up.
func Number(file string) int64 {
	n, err := strconv.ParseInt(file[strings.LastIndexByte(file, '.')+1:], 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// Before reports whether a position is before another one of the same server.
func (p Position) Before(other Position) bool { return p.Compare(other) < 0 }

// Compare says of two positions of the same server which one is first, like cmp.Compare.
func (p Position) Compare(other Position) int {
	return cmp.Or(cmp.Compare(Number(p.File), Number(other.File)), cmp.Compare(p.Offset, other.Offset))
}
