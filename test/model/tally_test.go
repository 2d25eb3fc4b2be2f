package model

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// tally counts what happened.
type tally struct {
	mu         sync.Mutex
	operations map[string]int
	answers    map[string]int
	faults     map[string]int
	notNows    int             // 503 that no outage excuses
	takeovers  []time.Duration // from the death of a worker until another one has its task
}

func (t *tally) init() {
	t.operations, t.answers, t.faults = map[string]int{}, map[string]int{}, map[string]int{}
}

func (t *tally) operation(q request)  { t.count(t.operations, string(q)) }
func (t *tally) answer(status string) { t.count(t.answers, status) }
func (t *tally) fault(kind string)    { t.count(t.faults, kind) }
func (t *tally) notNow() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.notNows++
}

func (t *tally) takeover(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.takeovers = append(t.takeovers, d)
}

func (t *tally) count(what map[string]int, key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	what[key]++
}

// print writes a table of everything, with the discrepancies that the audits found.
func (t *tally) print(to io.Writer, flavour string, seed uint64, found []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	row := func(name string, value any) { fmt.Fprintf(out, "%s\t%v\n", name, value) }
	row("flavour", flavour)
	row("seed", seed)
	row("requests", listed(t.operations))
	row("answers", listed(t.answers))
	row("503 without an outage", t.notNows)
	row("kills", t.faults["kill"])
	row("takeovers", spread(t.takeovers))
	row("pauses", t.faults["pause"])
	row("stops", t.faults["stop"])
	row("outages", listed(t.outages()))
	row("orphans", matching(found, "Orphan"))
	row("missing", matching(found, "Missing"))
	row("other discrepancies", len(found)-matching(found, "Orphan")-matching(found, "Missing"))
	out.Flush()
}

func (t *tally) outages() map[string]int {
	outages := maps.Clone(t.faults)
	for _, kind := range []string{"kill", "pause", "stop"} {
		delete(outages, kind)
	}
	return outages
}

// listed writes counts as their sum and the parts.
func listed(counts map[string]int) string {
	sum := 0
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		sum += counts[key]
		parts = append(parts, fmt.Sprintf("%s %d", key, counts[key]))
	}
	return fmt.Sprintf("%d: %s", sum, strings.Join(parts, ", "))
}

// spread writes how many durations there are, and the smallest, the middle and the greatest in seconds.
func spread(all []time.Duration) string {
	if len(all) == 0 {
		return "0"
	}
	sorted := slices.Sorted(slices.Values(all))
	return fmt.Sprintf("%d: min %.1f s, median %.1f s, max %.1f s", len(all), sorted[0].Seconds(),
		sorted[len(all)/2].Seconds(), sorted[len(all)-1].Seconds())
}

func matching(found []string, beginning string) (n int) {
	for _, sentence := range found {
		if strings.HasPrefix(sentence, beginning) {
			n++
		}
	}
	return n
}
