package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// report is what is printed at the end.
type report struct {
	Machine machine `json:"machine"`
	Rows    []Row   `json:"rows"`
}

// Row is one line of the table.
type Row struct {
	What    string  `json:"what"`
	Flavour string  `json:"flavour,omitempty"`
	Unit    string  `json:"unit"`           // of Broker and Raw, e.g. "ms"
	Goal    *Goal   `json:"goal,omitempty"` // nil: for information only
	Broker  *Spread `json:"broker,omitempty"`
	Raw     *Spread `json:"raw,omitempty"`    // nil: there is no reference
	Ratio   *Spread `json:"ratio,omitempty"`  // broker to raw, in each round
	Met     *bool   `json:"met,omitempty"`    // filled in by add
	Note    string  `json:"note,omitempty"`   // what the raw reference is, for instance; repeated ones are printed once
	Detail  bool    `json:"detail,omitempty"` // for a table of its own, below
}

// Goal is a bound on the median of the ratio or, where a row has none, of the broker's own figure.
type Goal struct {
	AtMost  float64 `json:"at_most,omitempty"`
	AtLeast float64 `json:"at_least,omitempty"`
	Unit    string  `json:"unit"` // "×", or the row's
}

// Goals on ratios.
func atMost(ratio float64) *Goal  { return &Goal{AtMost: ratio, Unit: "×"} }
func atLeast(ratio float64) *Goal { return &Goal{AtLeast: ratio, Unit: "×"} }

func (g *Goal) String() string {
	switch {
	case g == nil:
		return "–"
	case g.AtMost != 0:
		return fmt.Sprintf("≤ %s %s", significant(g.AtMost), g.Unit)
	}
	return fmt.Sprintf("≥ %s %s", significant(g.AtLeast), g.Unit)
}

func (g *Goal) metBy(median float64) bool {
	if g.AtMost != 0 {
		return median <= g.AtMost
	}
	return median >= g.AtLeast
}

// Spread summarises the rounds' measurements.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Rounds int     `json:"rounds"`
}

func spreadOf(values []float64) *Spread {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return nil
	}
	return &Spread{Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, Min: sorted[0], Max: sorted[n-1], Rounds: n}
}

func (s *Spread) String() string {
	switch {
	case s == nil:
		return "–"
	case s.Rounds == 1:
		return significant(s.Median)
	}
	return fmt.Sprintf("%s [%s–%s]", significant(s.Median), significant(s.Min), significant(s.Max))
}

// significant formats a figure with its significant digits.
func significant(f float64) string {
	switch {
	case f >= 100:
		return fmt.Sprintf("%.0f", f)
	case f >= 10:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.2f", f)
}

// add appends a row, and compares it with its goal.
func (r *report) add(row Row) {
	judged := row.Ratio
	if judged == nil {
		judged = row.Broker
	}
	if row.Goal != nil && judged != nil {
		met := row.Goal.metBy(judged.Median)
		row.Met = &met
	}
	r.Rows = append(r.Rows, row)
}

func (r *report) json() ([]byte, error) {
	content, err := json.MarshalIndent(r, "", "  ")
	return append(content, '\n'), err
}

// text is the report for people: Markdown, so that it can be pasted.
func (r *report) text() string {
	var b strings.Builder
	b.WriteString(r.Machine.text())
	b.WriteString("\nMedians [min–max] of the rounds. The ratio is the broker's figure to the raw one of the same " +
		"round.\n\n")
	var notes []string
	r.writeRows(&b, false, &notes)
	if slices.ContainsFunc(r.Rows, func(row Row) bool { return row.Detail }) {
		b.WriteString("\nIn detail:\n\n")
		r.writeRows(&b, true, &notes)
	}
	for i, note := range notes {
		fmt.Fprintf(&b, "\n%d. %s\n", i+1, note)
	}
	return b.String()
}

func (r *report) writeRows(b *strings.Builder, details bool, notes *[]string) {
	table := [][]string{{"what", "flavour", "goal", "broker", "raw", "ratio", "met"}}
	for _, row := range r.Rows {
		if row.Detail == details {
			table = append(table, []string{row.What + row.unit() + row.mark(notes), row.Flavour, row.Goal.String(),
				row.Broker.String(), row.Raw.String(), row.Ratio.String(), row.verdict()})
		}
	}
	writeTable(b, table)
}

func (r Row) unit() string {
	if r.Unit == "" {
		return ""
	}
	return ", " + r.Unit
}

func (r Row) verdict() string {
	switch {
	case r.Met == nil:
		return "–"
	case *r.Met:
		return "yes"
	}
	return "no"
}

// mark returns the mark of the row's note, and adds the note unless another row has the same one.
func (r Row) mark(notes *[]string) string {
	if r.Note == "" {
		return ""
	}
	if !slices.Contains(*notes, r.Note) {
		*notes = append(*notes, r.Note)
	}
	return fmt.Sprintf(" (%d)", slices.Index(*notes, r.Note)+1)
}

// writeTable writes rows, the first of them the heading, in columns of even width.
func writeTable(b *strings.Builder, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for n, row := range rows {
		for i, cell := range row {
			b.WriteString("| " + cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+1))
		}
		b.WriteString("|\n")
		if n > 0 {
			continue
		}
		for _, width := range widths {
			b.WriteString("|" + strings.Repeat("-", width+2))
		}
		b.WriteString("|\n")
	}
}
