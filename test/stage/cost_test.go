//go:build faults

package stage

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tick is the unit of times in /proc. https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
const tick = 10 * time.Millisecond

// spent is how much processor time programs have used: this one, the MySQL servers of a scene, and PostgreSQL. Other
// scenes may use this one and PostgreSQL at the same time.
type spent struct{ brokers, mysql, postgres time.Duration }

// measure logs at the end of the test how much it took.
func (s *scene) measure(t *testing.T) {
	t.Helper()
	before, began := s.spent(t), time.Now()
	t.Cleanup(func() {
		after := s.spent(t)
		t.Logf("%d points, %d brokers killed, %d paused, %d started in %.0f s; CPU-s: %.1f of brokers, %.1f of MySQL "+
			"servers, %.1f of PostgreSQL", s.passed, s.killed, s.paused, s.started, time.Since(began).Seconds(),
			(after.brokers - before.brokers).Seconds(), (after.mysql - before.mysql).Seconds(),
			(after.postgres - before.postgres).Seconds())
	})
}

func (s *scene) spent(t *testing.T) (sum spent) {
	t.Helper()
	sum.brokers = cpuTime(t, os.Getpid(), false)
	for _, m := range append([]*machine{s.shared}, s.servers.machines...) {
		sum.mysql += cpuTime(t, m.pid(t), false)
	}
	var backend int
	require.NoError(t, s.Tasks.QueryRow(context.Background(), "SELECT pg_backend_pid()").Scan(&backend))
	postmaster := stat(t, backend)[1]
	n, err := strconv.Atoi(postmaster)
	require.NoError(t, err)
	sum.postgres = cpuTime(t, n, true)
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, path := range all {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if fields := stat(t, pid); len(fields) > 1 && fields[1] == postmaster {
			sum.postgres += cpuTime(t, pid, false)
		}
	}
	return sum
}

// cpuTime is how much processor time a process has used, and its children that have ended.
func cpuTime(t *testing.T, pid int, children bool) (sum time.Duration) {
	t.Helper()
	fields := stat(t, pid)
	if len(fields) < 15 { // it has ended
		return 0
	}
	of := fields[11:13] // utime and stime; then cutime and cstime
	if children {
		of = fields[11:15]
	}
	for _, field := range of {
		ticks, err := strconv.Atoi(field)
		require.NoError(t, err)
		sum += time.Duration(ticks) * tick
	}
	return sum
}

// stat are the fields of a process's status from its state on.
func stat(t *testing.T, pid int) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return nil // it has ended
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	return strings.Fields(rest)
}
