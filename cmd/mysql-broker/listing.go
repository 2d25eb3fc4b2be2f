package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"golang.org/x/term"
)

// listing prints rows as they arrive, and keeps few of them in memory. On a terminal they are a table, elsewhere lines
// of fields separated by tabs; both begin with the names of the columns. With --json they are one array with an object
// on each line.
type listing struct {
	out     *bufio.Writer
	table   *tabwriter.Writer // nil if not on a terminal
	json    bool
	limit   int // the maximum number of rows, 0 for all
	printed int
}

// errEnough ends a listing that has reached its limit.
var errEnough = errors.New("enough")

// unlessEnough returns nil for errEnough, and other errors unchanged.
func unlessEnough(err error) error {
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// alignAtOnce is the number of rows of a table that are aligned together.
const alignAtOnce = 500

func newListing(out io.Writer, asJSON bool, limit int, columns ...string) *listing {
	f, ok := out.(*os.File)
	return startListing(out, ok && term.IsTerminal(int(f.Fd())), asJSON, limit, columns...)
}

func startListing(out io.Writer, terminal, asJSON bool, limit int, columns ...string) *listing {
	l := &listing{out: bufio.NewWriter(out), json: asJSON, limit: limit}
	if terminal {
		l.table = newTable(l.out)
	}
	if !asJSON {
		_ = l.line(columns) // the next line returns an error again, and so does the end
	}
	return l
}

// add prints a row: document with --json, else the fields. It returns errEnough when the limit is reached.
func (l *listing) add(document any, fields ...string) (err error) {
	if l.json {
		err = l.element(document)
	} else {
		for i, f := range fields {
			fields[i] = printable(f)
		}
		err = l.line(fields)
	}
	if l.printed++; err == nil && l.printed == l.limit {
		return errEnough
	}
	return err
}

// element prints an element of the array.
func (l *listing) element(document any) error {
	before := ",\n"
	if l.printed == 0 {
		before = "[\n"
	}
	raw, err := encode(document)
	if err == nil {
		_, err = l.out.WriteString(before + raw)
	}
	return err
}

func (l *listing) line(fields []string) error {
	text := strings.Join(fields, "\t") + "\n"
	if l.table == nil {
		_, err := l.out.WriteString(text)
		return err
	}
	_, err := io.WriteString(l.table, text)
	if err == nil && l.printed%alignAtOnce == alignAtOnce-1 {
		err = l.flush()
	}
	return err
}

// flush prints the buffered rows.
func (l *listing) flush() error {
	if l.table != nil {
		if err := l.table.Flush(); err != nil {
			return err
		}
	}
	return l.out.Flush()
}

// end prints the rest. err is the error of the code that read the rows, or nil. After an error, the array is not
// closed, so that incomplete output is not valid JSON.
func (l *listing) end(err error) error {
	err = unlessEnough(err)
	if l.json && err == nil {
		closing := "\n]\n"
		if l.printed == 0 {
			closing = "[]\n"
		}
		_, err = l.out.WriteString(closing)
	}
	return errors.Join(err, l.flush())
}

// encode returns one line of JSON.
func encode(document any) (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(document)
	return strings.TrimSuffix(b.String(), "\n"), err
}
