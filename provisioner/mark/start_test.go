package mark_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/instances"
	"mysql-broker/provisioner/leader"
	"mysql-broker/provisioner/mark"
	"mysql-broker/provisioner/plan"
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
				site.Must(err)
				require.True(t, leads, "another broker leads")
			}
			site.Must(record(t.Context(), site, newer(site)))
			start(site)
			expectHeld(site, where)
		})
	}
}

// A shared server that does not answer at the start is compared before the broker changes anything there.
func TestServerThatComesLaterHolds(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	proxy := testdrive.NewProxy(t, s.Address())
	through := s
	through.Port = proxy.Port()
	small := plan.Plan{ID: "small", Name: "small", ServiceID: "mysql", Kind: plan.Shared, Async: plan.AsyncNever,
		MaxStorageMB: 100, MaxConnections: 20, MaxBindings: 10}
	site := inprocess.New(t, s, testdrive.Environment(t, through), plan.Set{small})
	i := site.Provision(small)
	server, err := site.Fleet.Shared.Server(inprocess.SharedName)
	site.Must(err)
	site.Must(mark.RestartShared(t.Context(), server, newer(site)))
	proxy.Refuse(true)
	proxy.Cut()
	start(site)
	held, err := site.Store.Recovery.Hold(t.Context())
	site.Must(err)
	assert.Nil(t, held)
	proxy.Refuse(false)
	_, err = site.Broker.Deprovision(t.Context(), instances.DeprovisionRequest{InstanceID: i.ID, Plan: small})
	assert.Error(t, err)
	expectHeld(site, "the shared server "+inprocess.SharedName)
	testdrive.Exec(t, site.Root, "USE `"+i.Database+"`")
}

// newer is the mark of a PostgreSQL that has recorded more tasks than the site's.
func newer(site *inprocess.Site) store.Mark {
	m, err := site.Store.Recovery.Mark(site.Context())
	site.Must(err)
	m.TaskID, m.TaskAt = m.TaskID+1000, time.Now()
	return m
}

func start(site *inprocess.Site) {
	k, err := mark.Start(site.Context(), mark.Config{Store: site.Store, Fleet: site.Fleet,
		Logger: slog.New(slog.NewTextHandler(site.Output(), nil))})
	site.Must(err)
	site.Cleanup(k.Close)
}

func expectHeld(site *inprocess.Site, where string) {
	held, err := site.Store.Recovery.Hold(site.Context())
	site.Must(err)
	assert.True(site, held != nil && strings.Contains(held.Reason, where+" has a record of task_"),
		"PostgreSQL is held: %v", held)
}
