package operator

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"mysql-broker/cmd/mysql-broker/cli"
	"mysql-broker/visible"
)

// row is what a list prints a line about: in JSON the value itself, in tables its cells. The names of the cells do not
// depend on the value.
type row interface{ cells() []cell }

// cell is a field of a row with the name of its column, or of one item with the name of its line.
type cell struct{ name, text string }

// output says how rows are printed.
type output struct {
	json  bool
	lines bool // with json, instead of one array of them, so that a file of them can be added to
	limit uint // the maximum number of rows, 0 for all
}

func (o *output) addFlags(command *cobra.Command) {
	command.Flags().BoolVar(&o.json, "json", false, "print JSON")
	command.Flags().UintVar(&o.limit, "limit", 0, "print so many rows at most; 0 prints all")
}

// listing prints rows as they arrive, and keeps few of them in memory. On a terminal they are a table, elsewhere lines
// of fields separated by tabs; both begin with the names of the columns. With --json they are one array with an object
// on each line.
type listing[R row] struct {
	output
	out     *bufio.Writer
	table   *tabwriter.Writer // nil if not aligned
	columns []string
	printed uint
}

// alignAtOnce is the number of rows of a table that are aligned together.
const alignAtOnce = 500

// newListing shows the named columns, all if none is named.
func newListing[R row](out io.Writer, aligned bool, o output, columns ...string) *listing[R] {
	l := &listing[R]{output: o, out: bufio.NewWriter(out), columns: columns}
	if aligned {
		l.table = tabwriter.NewWriter(l.out, 0, 0, 3, ' ', 0)
	}
	if len(columns) == 0 {
		var zero R
		for _, c := range zero.cells() {
			l.columns = append(l.columns, c.name)
		}
	}
	return l
}

func printList[R row](out io.Writer, o output, rows iter.Seq2[R, error], columns ...string) error {
	return newListing[R](out, cli.OnTerminal(out), o, columns...).all(rows)
}

// printTable prints rows, always aligned.
func printTable[R row](out io.Writer, rows []R) error {
	return newListing[R](out, true, output{}).all(these(rows, nil))
}

// all prints rows up to the limit, and ends the listing.
func (l *listing[R]) all(rows iter.Seq2[R, error]) error {
	for r, err := range rows {
		if err == nil {
			err = l.add(r)
		}
		if err != nil {
			return errors.Join(err, l.flush())
		}
		if l.printed == l.limit {
			break
		}
	}
	return l.end()
}

func (l *listing[R]) add(r R) (err error) {
	if l.json {
		err = l.element(r)
	} else {
		if l.printed == 0 {
			_ = l.line(l.columns) // the next line returns an error again
		}
		err = l.line(l.fields(r))
	}
	l.printed++
	return err
}

func (l *listing[R]) fields(r R) []string {
	cells, fields := r.cells(), make([]string, len(l.columns))
	for n, column := range l.columns {
		fields[n] = printable(cells[slices.IndexFunc(cells, func(c cell) bool { return c.name == column })].text)
	}
	return fields
}

func (l *listing[R]) element(r R) error {
	before, after := ",\n", ""
	switch {
	case l.lines:
		before, after = "", "\n"
	case l.printed == 0:
		before = "[\n"
	}
	raw, err := encode(r)
	if err == nil {
		_, err = l.out.WriteString(before + raw + after)
	}
	return err
}

func (l *listing[R]) line(fields []string) error {
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

func (l *listing[R]) flush() error {
	if l.table != nil {
		if err := l.table.Flush(); err != nil {
			return err
		}
	}
	return l.out.Flush()
}

// end prints the rest. It is not called after an error, so that incomplete output is not valid JSON.
func (l *listing[R]) end() (err error) {
	switch {
	case !l.json && l.printed == 0:
		err = l.line(l.columns)
	case !l.json || l.lines:
	case l.printed == 0:
		_, err = l.out.WriteString("[]\n")
	default:
		_, err = l.out.WriteString("\n]\n")
	}
	return errors.Join(err, l.flush())
}

func encode(document any) (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(document)
	return visible.Text(strings.TrimSuffix(b.String(), "\n")), err
}
