package mark_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/leader"
	"mysql-broker/provisioner/mark"
	"mysql-broker/store"
	"mysql-broker/test/inprocess"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestMain(m *testing.M) { servers.Main(m) }

// When Start returns, PostgreSQL is held if a launcher or a server that responds has a newer mark.
func TestStartHoldsAnOlderPostgreSQL(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	for where, record := range map[string]func(context.Context, *inprocess.Site, store.Mark) error{
		"the launcher's directory": func(ctx context.Context, site *inprocess.Site, m store.Mark) error {
			return mark.RestartDedicated(ctx, site.Fleet.Launchers()[0], m)
		},
		"the shared server " + inprocess.SharedName: func(ctx context.Context, site *inprocess.Site, m store.Mark) error {
			server, err := site.Fleet.Shared.Server(inprocess.SharedName)
			site.Must(err)
			return mark.RestartShared(ctx, server, m)
		},
	} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			site := inprocess.New(t, s, testdrive.Environment(t, s), nil)
			for _, lease := range []string{"mark", "mark of dedicated servers"} { // so that only the start compares
				leads, _, err := site.Store.Leader.Acquire(t.Context(), lease, "another broker", leader.Hold)
				if site.Must(err); !leads {
					t.Fatal("another broker leads")
				}
			}
			m, err := site.Store.Recovery.Mark(t.Context())
			site.Must(err)
			m.TaskID, m.TaskAt = m.TaskID+1000, time.Now()
			site.Must(record(t.Context(), site, m))
			k, err := mark.Start(t.Context(), mark.Config{Store: site.Store, Fleet: site.Fleet,
				Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
			site.Must(err)
			t.Cleanup(k.Close)
			held, err := site.Store.Recovery.Hold(t.Context())
			site.Must(err)
			assert.True(t, held != nil && strings.Contains(held.Reason, where+" has a record of task_"),
				"PostgreSQL is held: %v", held)
		})
	}
}
