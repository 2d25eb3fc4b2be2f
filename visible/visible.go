// Package visible keeps what terminals and browsers do not show, but obey, out of texts for people: escape sequences
// and marks that change the direction of writing. Tenants choose names, and the broker quotes them.
package visible

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Text returns s with control and format characters escaped as JSON has it: \u001b. So JSON stays what it was. Line
// ends, tabs, no-break spaces and joiners, which some scripts need, stay.
func Text(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if !hidden(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

func hidden(r rune) bool {
	return !strconv.IsPrint(r) && !strings.ContainsRune("\n\t\u00a0\u200c\u200d", r)
}

// Writer returns a writer that passes Text on to out. Each Write gets whole characters.
func Writer(out io.Writer) io.Writer { return writer{out} }

type writer struct{ out io.Writer }

func (w writer) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.out, Text(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
