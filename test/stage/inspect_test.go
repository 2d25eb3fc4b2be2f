//go:build faults

package stage

import (
	"fmt"
	"maps"
	"slices"

	"mysql-broker/provisioner/launcher"
)

func (p *playedServers) Inspect(ids []string,
	asleep map[string]bool) (found map[string]launcher.Endpoint, problems []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found = map[string]launcher.Endpoint{}
	report := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for id, s := range p.servers {
		switch {
		case slices.Contains(ids, id):
			if s.machine != nil {
				found[id] = s.machine.endpoint()
			}
			if s.phase != ready || !s.kept {
				report("The dedicated server %s is %s (kept: %t).", id, s.phase, s.kept)
			}
		case !asleep[id]:
			report("Orphan: dedicated server %s, which is %s.", id, s.phase)
		case s.phase != suspended:
			report("The dedicated server %s is to be suspended, and is %s.", id, s.phase)
		}
	}
	for _, id := range slices.Concat(ids, slices.Collect(maps.Keys(asleep))) {
		if p.servers[id] == nil {
			report("Missing: dedicated server %s.", id)
		}
	}
	for _, m := range p.machines {
		if s := p.servers[m.borrower]; m.borrower != "" && (s == nil || s.machine != m) {
			report("Orphan: a machine of the stage is lent to the dedicated server %s.", m.borrower)
		}
	}
	return found, problems
}
