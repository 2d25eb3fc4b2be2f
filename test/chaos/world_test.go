package chaos

import (
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher/launchertest"
	"mysql-broker/test/platform"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

const (
	// startAtOnce is how many brokers are started side by side.
	startAtOnce = 3
	// pollEach is how often platforms poll, and try again.
	pollEach = 100 * time.Millisecond
)

// world is a platform with its brokers: two that carry out what it asks for, and any number of others.
type world struct {
	*platform.World
	env       map[string]string
	survivors [2]*testdrive.Broker
	faults    *testdrive.Faults
	turn      atomic.Int32 // which survivor gets the next request
}

// newWorld starts the brokers, with a shared server of their own. Dedicated servers are processes of this host.
func newWorld(t *testing.T, flavour string) *world {
	t.Helper()
	private := testdrive.Private(t, flavour)
	env := testdrive.Environment(t, private)
	return newWorldWith(t, private, env, testdrive.Inspectors(env), nil)
}

// newKubernetesWorld is newWorld with dedicated servers in a namespace of onKubernetes.
func newKubernetesWorld(t *testing.T, flavour string) *world {
	t.Helper()
	private := testdrive.Private(t, flavour)
	env, inspectors := testdrive.OnKubernetes(t, testdrive.Environment(t, private), flavour, &onKubernetes, "")
	return newWorldWith(t, private, env, inspectors, nil)
}

func newWorldWith(t *testing.T, private servers.MySQL, env map[string]string,
	inspectors map[string]launchertest.Inspector, more map[string]string) *world {
	t.Helper()
	w := &world{env: env, World: &platform.World{PollEach: pollEach}}
	w.Send = w.send
	w.env["CATALOG"] = testdrive.RetainingCatalog(t, "shared-small", "dedicated-small")
	w.env["BACKUP_STORE"] = "file://" + t.TempDir()
	maps.Copy(w.env, more)
	if w.env["LAUNCHER"] == "process" {
		w.Later = testdrive.OfferUpgrade(t, w.env).Version
	}
	w.faults = testdrive.NewFaults(t, w.env)
	admin, err := private.Open()
	require.NoError(t, err)
	t.Cleanup(func() { admin.Close() })
	w.Tasks, err = pgxpool.New(t.Context(), w.env["DATABASE_URL"])
	require.NoError(t, err)
	t.Cleanup(w.Tasks.Close)
	w.Audit = testdrive.AuditOf(t, w.env, admin)
	w.Audit.Launchers = inspectors
	for n := range w.survivors {
		w.survivors[n] = testdrive.Launch(t, w.env, "serve")
	}
	for _, b := range w.survivors {
		b.AwaitReady(t)
	}
	return w
}

// send sends to the survivors by turns.
func (w *world) send(method, path string, body any) (testdrive.Response, error) {
	return w.survivors[int(w.turn.Add(1))%len(w.survivors)].Send(method, path, body, nil)
}
