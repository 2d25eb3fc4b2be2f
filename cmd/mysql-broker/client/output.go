package client

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"mysql-broker/visible"
)

// progress prints the progress of an operation, a line for each change.
type progress struct {
	out         io.Writer
	title, last string
}

func (p *progress) begin(title string) { p.title, p.last = visible.Text(title), "" }

// show takes the broker's description of the running operation.
func (p *progress) show(description string) {
	if description = visible.Text(description); description == "" || description == p.last {
		return
	}
	p.last = description
	fmt.Fprintf(p.out, "%s: %s\n", p.title, description)
}

// report prints a sentence, or with --json the document.
func (s *session) report(sentence string, document any) error {
	if s.json {
		return s.printJSON(document)
	}
	_, err := fmt.Fprintln(s.out, sentence+".")
	return err
}

func (s *session) printJSON(document any) error {
	e := json.NewEncoder(s.out)
	e.SetEscapeHTML(false) // credentials have & in their URLs
	e.SetIndent("", "  ")
	return e.Encode(document)
}

func (s *session) printTable(rows [][]string) error {
	w := tabwriter.NewWriter(s.out, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		if _, err := fmt.Fprintln(w, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return w.Flush()
}
