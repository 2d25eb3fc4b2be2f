package client

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
)

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
