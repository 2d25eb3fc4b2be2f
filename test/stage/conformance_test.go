//go:build faults

package stage

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/test/launchertest"
	"mysql-broker/test/servers"
)

// TestLauncher keeps the played launcher to the contract of real ones.
func TestLauncher(t *testing.T) {
	for _, of := range servers.Chosen(t, servers.AllMySQL(t)) {
		t.Run(of.Flavour, func(t *testing.T) {
			p := newPlayedServers(t, of.Flavour)
			var turn sync.Mutex // one test at a time has the machines
			launchertest.Run(t, func(t *testing.T) launchertest.Place {
				turn.Lock()
				t.Cleanup(func() {
					defer turn.Unlock()
					p.clear(t)
				})
				return launchertest.Place{
					Open:         func(*testing.T) launcher.Launcher { return &played{p, new(cutter)} },
					Fill:         func(*testing.T) { p.fill() },
					MemoryMB:     [2]int{256, 512},
					NoBinaryLogs: true,
				}
			})
		})
	}
}

// clear destroys what a test has left.
func (p *playedServers) clear(t *testing.T) {
	l := &played{p, new(cutter)}
	for _, id := range slices.Collect(maps.Keys(p.servers)) {
		assert.NoError(t, l.Destroy(context.Background(), id), "clear the stage")
	}
	clear(p.notes)
	for _, m := range p.machines {
		m.borrower = ""
	}
}

// fill has all machines that are free used by others.
func (p *playedServers) fill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.machines {
		if m.borrower == "" {
			m.borrower = "others"
		}
	}
}
