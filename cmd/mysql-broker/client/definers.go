package client

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"regexp"
)

// definerClause matches DEFINER=`user`@`host` in a statement of either flavour's dump, and the text before it.
var definerClause = regexp.MustCompile(
	"^(/\\*!\\d+ (?:CREATE\\*/ /\\*!\\d+ )?|CREATE (?:OR REPLACE )?)DEFINER=`(?:[^`]|``)*`@`(?:[^`]|``)*` ?")

// maxHead is longer than any statement's text up to the end of its definer.
const maxHead = 64 << 10

// copyWithoutDefiners copies a dump without the definers of views, triggers, routines and events. These then belong to
// the account that restores them, because naming another account needs a privilege on the whole server. It searches
// only where dump programs write definers: in the first line of the statement of a routine, trigger or event, and in
// the second line of a view's. Similar text elsewhere is data.
func copyWithoutDefiners(to io.Writer, from io.Reader) error {
	r := bufio.NewReaderSize(from, maxHead)
	programs := false         // between DELIMITER ;; and DELIMITER ;
	var beginning, end []byte // of the line before
	for {
		line, err := r.ReadSlice('\n')
		text := bytes.TrimRight(line, "\r\n ")
		switch string(text) {
		case "DELIMITER ;;":
			programs = true
		case "DELIMITER ;":
			programs = false
		}
		if programs && string(end) == ";;" || // the statement before has ended
			!programs && bytes.HasPrefix(beginning, []byte("/*!50001 CREATE ALGORITHM=")) {
			line = definerClause.ReplaceAll(line, []byte("$1"))
		}
		beginning, end = append(beginning[:0], text[:min(len(text), 64)]...), last(end[:0], text)
		if _, err := to.Write(line); err != nil {
			return err
		}
		for errors.Is(err, bufio.ErrBufferFull) { // copy the rest of a long line unchanged
			line, err = r.ReadSlice('\n')
			end = last(end, bytes.TrimRight(line, "\r\n "))
			if _, err := to.Write(line); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// last appends the end of text to end, and keeps two bytes.
func last(end, text []byte) []byte {
	end = append(end, text[max(len(text)-2, 0):]...)
	return append(end[:0], end[max(len(end)-2, 0):]...)
}
