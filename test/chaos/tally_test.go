package chaos

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"mysql-broker/test/platform"
)

// tally counts what was done to the brokers on one flavour, and what came of it.
type tally struct {
	flavour string

	platform.Counts

	mu                    sync.Mutex
	points, kills, pauses int
	takeovers             []time.Duration
}

func (y *tally) count(n *int, by int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	*n += by
}

func (y *tally) pointsPassed(n int) { y.count(&y.points, n) }
func (y *tally) kill()              { y.count(&y.kills, 1) }
func (y *tally) pause()             { y.count(&y.pauses, 1) }

func (y *tally) takeover(after time.Duration) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.takeovers = append(y.takeovers, after)
}

// table is for people to read.
func table(all []*tally) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "flavour\tpoints\tkills\tpauses\ttakeovers\tmin\tmedian\tmax\toperations\trepeated\tdiscrepancies")
	for _, y := range all {
		y.mu.Lock()
		slices.Sort(y.takeovers)
		n := len(y.takeovers)
		least, middle, most := "-", "-", "-"
		if n > 0 {
			least, middle, most = seconds(y.takeovers[0]), seconds(y.takeovers[n/2]), seconds(y.takeovers[n-1])
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t%d\t%d\t%d\n", y.flavour, y.points, y.kills, y.pauses, n, least, middle,
			most, y.Operations.Load(), y.Repeats.Load(), y.Discrepancies.Load())
		y.mu.Unlock()
	}
	w.Flush()
	return text.String()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
