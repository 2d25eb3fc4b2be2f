package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// output has the flags for the format of lists.
type output struct {
	json  bool
	limit int
}

func (o *output) flags(command *cobra.Command) {
	command.Flags().BoolVar(&o.json, "json", false, "print JSON")
	command.Flags().IntVar(&o.limit, "limit", 0, "print so many rows at most; 0 prints all")
}

func (o *output) listing(cmd *cobra.Command, columns ...string) *listing {
	return newListing(cmd.OutOrStdout(), o.json, o.limit, columns...)
}

// writeJSON prints an indented document.
func writeJSON(out io.Writer, document any) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(document)
}

// details prints one item: its document with --json, else a line for each field that is not empty.
func details(out io.Writer, asJSON bool, document any, fields [][2]string) error {
	if asJSON {
		return writeJSON(out, document)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range fields {
		if f[1] != "" {
			fmt.Fprintf(table, "%s:\t%s\n", f[0], printable(f[1]))
		}
	}
	return table.Flush()
}

// newTable aligns fields between tabs.
func newTable(out io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(out, 0, 0, 3, ' ', 0) }

// printTable prints rows below the names of their columns, always aligned.
func printTable(out io.Writer, columns string, rows [][]string) error {
	table := newTable(out)
	fmt.Fprintln(table, columns)
	for _, row := range rows {
		for i, field := range row {
			row[i] = printable(field)
		}
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	return table.Flush()
}

// printable replaces characters that would break a table, such as line breaks in a platform's ids.
func printable(s string) string {
	if s == "" {
		return "-"
	}
	if strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// age returns text for people, in the largest unit that gives at least 2.
func age(seconds int64) string {
	d := time.Duration(seconds) * time.Second
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}} {
		if d >= 2*unit.length {
			return strconv.Itoa(int(d/unit.length)) + " " + unit.name
		}
	}
	if d == 0 {
		return "-"
	}
	return strconv.Itoa(int(d/time.Second)) + " s"
}

// since returns text for people: the time passed, by this machine's clock.
func since(t time.Time) string { return age(int64(max(time.Since(t), 0).Seconds())) }

// ago returns text for people: how long ago a time was, or how far ahead it is.
func ago(t time.Time) string {
	switch passed := time.Since(t); {
	case passed <= -time.Second:
		return "in " + age(int64(-passed.Seconds()))
	case passed < time.Second:
		return "just now"
	}
	return since(t) + " ago"
}

// at returns text for people: the time, and how far it is from now.
func at(t time.Time) string { return fmt.Sprintf("%s (%s)", t.Format(time.RFC3339), ago(t)) }

// named returns text for people: a name, if there is one, and an id.
func named(name, id string) string {
	if name == "" || id == "" {
		return cmp.Or(name, id)
	}
	return name + " (" + id + ")"
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
