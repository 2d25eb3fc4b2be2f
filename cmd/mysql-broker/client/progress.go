package client

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"mysql-broker/visible"
)

const barWidth = 20

// progress shows the progress of an operation: on a terminal in one line that it updates, elsewhere in a line for each
// change.
type progress struct {
	out      io.Writer
	terminal *os.File // nil if out is none
	title    string
	start    time.Time
	last     string
}

func newProgress(out io.Writer) *progress {
	p := &progress{out: out}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.terminal = f
	}
	return p
}

func (p *progress) begin(title string) {
	p.title, p.start, p.last = visible.Text(title), time.Now(), ""
}

// show takes the broker's description of the running operation.
func (p *progress) show(description string) {
	description = visible.Text(description)
	if p.terminal != nil {
		p.draw(description)
		return
	}
	if description == "" || description == p.last {
		return
	}
	p.last = description
	fmt.Fprintf(p.out, "%s: %s\n", p.title, description)
}

func (p *progress) draw(description string) {
	line := p.title
	if percent, ok := percentage(description); ok {
		full := percent * barWidth / 100
		line = fmt.Sprintf("%s [%s%s] %d%%", line, strings.Repeat("#", full), strings.Repeat("-", barWidth-full), percent)
	}
	line = fmt.Sprintf("%s  %s  %d s", line, description, int(time.Since(p.start).Seconds()))
	if width, _, err := term.GetSize(int(p.terminal.Fd())); err == nil {
		if runes := []rune(line); len(runes) >= width {
			line = string(runes[:max(width-1, 0)])
		}
	}
	p.last = line
	fmt.Fprintf(p.out, "\r%s%s", line, eraseToEnd)
}

// eraseToEnd is the control sequence EL of ECMA-48, 8.3.41.
const eraseToEnd = "\x1b[K"

// end clears the terminal's line for what follows.
func (p *progress) end() {
	if p.terminal != nil && p.last != "" {
		fmt.Fprintf(p.out, "\r%s", eraseToEnd)
	}
	p.last = ""
}

var stepOf = regexp.MustCompile(`\((\d+) of (\d+)\)`)

// percentage is the share of completed steps, if a description counts them: "Starting mysqld (3 of 6)".
func percentage(description string) (percent int, ok bool) {
	found := stepOf.FindStringSubmatch(description)
	if found == nil {
		return 0, false
	}
	step, tooLong := strconv.Atoi(found[1])
	steps, err := strconv.Atoi(found[2])
	if tooLong != nil || err != nil || step < 1 || step > steps {
		return 0, false
	}
	return (step - 1) * 100 / steps, true
}
