package operator

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"mysql-broker/visible"
)

func writeJSON(out io.Writer, document any) error {
	e := json.NewEncoder(visible.Writer(out))
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(document)
}

// details prints one item: its document with --json, else a line for each field that is not empty.
func details(out io.Writer, asJSON bool, document any, fields []cell) error {
	if asJSON {
		return writeJSON(out, document)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range fields {
		if f.text != "" {
			fmt.Fprintf(table, "%s:\t%s\n", f.name, printable(f.text))
		}
	}
	return table.Flush()
}

// detailRows prints rows that belong to one item, below its details.
func detailRows[R row](out io.Writer, rows []R, columns ...string) error {
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	return printList(out, output{}, these(rows, nil), columns...)
}
