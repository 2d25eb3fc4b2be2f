package task_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/task"
	"mysql-broker/store"
	"mysql-broker/test/limits"
	"mysql-broker/test/logged"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// An outage of PostgreSQL is logged once when it begins and once when it ends, by a runner that has nothing to do. One
// that holds leases also logs that it cannot renew them.
func TestOutageIsLoggedOnce(t *testing.T) {
	t.Parallel()
	const beat = time.Second
	for _, tt := range []struct {
		name     string
		busy     bool
		ttl      time.Duration
		failures []string
	}{
		{"idle", false, 4 * beat, []string{"looking for tasks failed"}},
		{"with a lease", true, 40 * beat, []string{"looking for tasks failed", "lease renewal failed"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			proxy, url := testdrive.ProxyURL(t, servers.Postgres(t))
			var log logged.Text
			s, running, release := servers.OpenStore(t, url), make(chan bool, 1), make(chan bool)
			w := task.Workflow{Steps: []task.Step{{Name: "a", Do: func(context.Context, *task.Run) error {
				running <- true
				<-release
				return nil
			}}}}
			r := task.New(s, always(w),
				task.Config{LeaseTTL: tt.ttl, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			t.Cleanup(r.Stop)
			defer close(release)
			if tt.busy {
				record(t, s, store.NewTask{})
				testdrive.Receive(t, running, "the task begins")
			}

			proxy.Refuse(true)
			proxy.Cut()
			began := time.Now()
			testdrive.Eventually(t, limits.Stuck, "the outage is told, and goes on for some beats", func() bool {
				return !slices.ContainsFunc(tt.failures, func(f string) bool { return log.Count(f) == 0 }) &&
					time.Since(began) > 4*beat
			})
			assert.Equal(t, len(tt.failures), log.Count("level="), "lines:\n%s", &log) // and so each says one
			proxy.Refuse(false)
			testdrive.Eventually(t, limits.Stuck, "the end of the outage is told", func() bool {
				return !slices.ContainsFunc(tt.failures, func(f string) bool {
					return log.Count(strings.TrimSuffix(f, "failed")+"works again") == 0
				})
			})
		})
	}
}
