package transfer

import (
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
)

// rowSum computes what selectSum returns from the rows that a copy has read, so that the source's server need not read
// them again.
type rowSum struct {
	rows, sum uint64
	inexact   bool // the rows have values that the servers print differently from Go
	text      []byte
}

func (s *rowSum) String() string { return fmt.Sprintf("%d %d", s.rows, s.sum) }

func parseSum(text string) (s rowSum, err error) {
	if _, err = fmt.Sscanf(text, "%d %d", &s.rows, &s.sum); err != nil {
		err = fmt.Errorf("a server's checksum %q: %w", text, err)
	}
	return s, err
}

// add adds a row. The values are those of selectRows.
func (s *rowSum) add(t *table, values []value) {
	if s.inexact {
		return
	}
	s.text = s.text[:0]
	separate := false
	for n, v := range values {
		if v == nil { // CONCAT_WS leaves it out
			continue
		}
		if separate {
			s.text = append(s.text, '#')
		}
		separate = true
		switch v := v.(type) {
		case int64:
			s.text = strconv.AppendInt(s.text, v, 10)
		case uint64:
			s.text = strconv.AppendUint(s.text, v, 10)
		case []byte:
			s.text = t.Columns[n].appendSummed(s.text, v)
		default:
			s.inexact = true
			return
		}
	}
	s.text = t.appendNulls(s.text, values, separate)
	s.rows++
	s.sum += uint64(crc32.ChecksumIEEE(s.text))
}

// appendSummed appends what column.sum returns for a value that is not NULL.
func (c column) appendSummed(to, text []byte) []byte {
	if !slices.Contains(long, c.Kind) {
		return append(to, text...)
	}
	to = strconv.AppendUint(to, uint64(crc32.ChecksumIEEE(text)), 10)
	return strconv.AppendInt(append(to, '#'), int64(len(text)), 10)
}

// appendNulls appends which of the columns that can be NULL are.
func (t *table) appendNulls(to []byte, values []value, separate bool) []byte {
	for n, c := range t.Columns {
		if !c.Nullable {
			continue
		}
		if separate {
			to, separate = append(to, '#'), false
		}
		null := byte('0')
		if values[n] == nil {
			null = '1'
		}
		to = append(to, null)
	}
	return to
}
