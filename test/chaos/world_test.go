package chaos

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"mysql-broker/provisioner/launcher/launchertest"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/audit"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

const (
	leaseTime = 10 * time.Second
	// takeoverTime is how long a task may lie still after its broker died.
	takeoverTime = leaseTime + 2*time.Second
	// startAtOnce is how many brokers are started side by side.
	startAtOnce = 3
	// patience bounds what is awaited where a dozen operations and their brokers are under way at the same time.
	patience = 10 * time.Minute
)

// world is a platform with its brokers: two that nothing happens to, and any number of victims.
type world struct {
	flavour   string
	later     string // the version that servers of dedicated-large are to have; those of dedicated-small have an older one
	env       map[string]string
	survivors [2]*testdrive.Broker
	tasks     *pgxpool.Pool
	watch     *watch
	tally     *tally
	audit     audit.World
	turn      atomic.Int32 // which survivor gets the next request

	mu       sync.Mutex
	reported audit.Reported
}

// newWorld starts the brokers, with a shared server of their own. Dedicated servers are processes of this host.
func newWorld(t *testing.T, flavour string, sum *tally, more map[string]string) *world {
	t.Helper()
	private := testdrive.Private(t, flavour)
	env := testdrive.Environment(t, private)
	return newWorldWith(t, private, sum, env, testdrive.Inspectors(env), more)
}

// newKubernetesWorld is newWorld with dedicated servers in a namespace of onKubernetes.
func newKubernetesWorld(t *testing.T, flavour string, sum *tally, more map[string]string) *world {
	t.Helper()
	private := testdrive.Private(t, flavour)
	env, inspectors := testdrive.OnKubernetes(t, testdrive.Environment(t, private), flavour, &onKubernetes, "")
	return newWorldWith(t, private, sum, env, inspectors, more)
}

func newWorldWith(t *testing.T, private servers.MySQL, sum *tally, env map[string]string,
	inspectors map[string]launchertest.Inspector, more map[string]string) *world {
	t.Helper()
	w := &world{flavour: private.Flavour, env: env, tally: sum}
	for name, value := range more {
		w.env[name] = value
	}
	if w.env["LAUNCHER"] == "process" {
		w.offerUpgrade(t)
	}
	w.watch = newWatch(testdrive.NewFaults(t, w.env))
	admin, err := private.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { admin.Close() })
	if w.tasks, err = pgxpool.New(t.Context(), w.env["DATABASE_URL"]); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.tasks.Close)
	w.audit = audit.World{PostgresURL: w.env["DATABASE_URL"], Keyset: w.env["ENCRYPTION_KEYSET"], Shared: admin,
		Launchers: inspectors, Plans: testdrive.Plans(t)}
	for n := range w.survivors {
		w.survivors[n] = testdrive.Launch(t, w.env, "serve")
	}
	for _, b := range w.survivors {
		b.AwaitReady(t)
	}
	return w
}

// offerUpgrade has the plan dedicated-large want a later version than dedicated-small.
func (w *world) offerUpgrade(t *testing.T) {
	t.Helper()
	present, err := mysqld.ReadBinary(w.env["LAUNCHER_MYSQLD"])
	if err != nil {
		t.Fatal(err)
	}
	later := servers.Later(t, present)
	w.later, w.env["LAUNCHER_MYSQLD"] = later.Version, present.Path+","+later.Path
	w.env["CATALOG"] = testdrive.CatalogWith(t, w.env["CATALOG"], "dedicated-small", fmt.Sprintf("version: %q",
		present.Version))
}

// survivor takes turns.
func (w *world) survivor() *testdrive.Broker {
	return w.survivors[int(w.turn.Add(1))%len(w.survivors)]
}

// victims launches brokers; they are ready when ready has returned.
func (w *world) victims(t *testing.T, n int) (victims []*testdrive.Broker, ready func()) {
	t.Helper()
	for len(victims) < n {
		victims = append(victims, testdrive.Launch(t, w.env, "serve"))
		if len(victims)%startAtOnce == 0 {
			victims[len(victims)-1].AwaitReady(t) // so that not too many start at the same time
		}
	}
	return victims, func() {
		t.Helper()
		for _, b := range victims {
			b.AwaitReady(t)
		}
	}
}

// tell records what the platform now knows of an instance.
func (w *world) tell(i audit.Instance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for n, known := range w.reported.Instances {
		if known.ID == i.ID {
			w.reported.Instances[n] = i
			return
		}
	}
	w.reported.Instances = append(w.reported.Instances, i)
}

// tellBinding records what the platform now knows of a binding; it keeps known credentials.
func (w *world) tellBinding(b audit.Binding) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for n, known := range w.reported.Bindings {
		if known.ID == b.ID {
			if b.Credentials == (audit.Credentials{}) {
				b.Credentials = known.Credentials
			}
			w.reported.Bindings[n] = b
			return
		}
	}
	w.reported.Bindings = append(w.reported.Bindings, b)
}

// tellGone records that an instance is deleted, with its bindings.
func (w *world) tellGone(instanceID string) {
	w.tell(audit.Instance{ID: instanceID, State: audit.Gone})
	w.mu.Lock()
	defer w.mu.Unlock()
	for n := range w.reported.Bindings {
		if w.reported.Bindings[n].InstanceID == instanceID {
			w.reported.Bindings[n].State = audit.Gone
		}
	}
}

// check compares what the platform knows with what exists.
func (w *world) check(t *testing.T, when string) {
	t.Helper()
	found := w.discrepancies(t.Context())
	for _, sentence := range found {
		t.Errorf("%s: %s", when, sentence)
	}
	w.tally.discrepancies(len(found))
}

func (w *world) discrepancies(ctx context.Context) []string {
	w.mu.Lock()
	w.audit.Reported = w.reported
	w.mu.Unlock()
	return audit.Check(ctx, w.audit)
}

// outcome is what has become of a request: a final response, after polling where the first one said "accepted".
type outcome struct {
	testdrive.Response
	failed bool // last_operation said so
}

// run sends a request through a survivor and waits for what it comes to. On a machine so busy that the broker's
// connections time out, and it answers 5xx, the platform asks again.
func (w *world) run(q request) (got outcome, err error) {
	for deadline := time.Now().Add(patience); ; {
		r, err := w.survivor().Send(q.method, q.path, q.body, nil)
		if err != nil {
			return outcome{}, fmt.Errorf("%s: %w", q.kind, err)
		}
		if !askedToRepeat(r) || time.Now().After(deadline) {
			return w.conclude(q, r)
		}
		w.tally.repeat()
		time.Sleep(100 * time.Millisecond) // as platforms try again
	}
}

// askedToRepeat reports whether a response says "not now": a broker that is paused may hold a lock for some seconds.
func askedToRepeat(r testdrive.Response) bool {
	return r.Status >= http.StatusInternalServerError || r.String("error") == "ConcurrencyError"
}

// conclude polls if a response is "accepted"; any other that is not 2xx or 410 is an error.
func (w *world) conclude(q request, r testdrive.Response) (outcome, error) {
	w.tally.operation()
	switch {
	case r.Status == http.StatusAccepted:
		return w.poll(q, r)
	case r.Status >= 300 && r.Status != http.StatusGone:
		return outcome{r, true}, fmt.Errorf("%s was answered %d: %s", q.kind, r.Status, r.Raw)
	}
	return outcome{r, false}, nil
}

func (w *world) poll(q request, accepted testdrive.Response) (outcome, error) {
	operation := accepted.String("operation")
	path := "/v2/service_instances/" + q.instanceID + "/last_operation?operation=" + operation
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		r, err := w.survivor().Send("GET", path, nil, nil)
		if err != nil || r.Status != http.StatusOK {
			return outcome{}, fmt.Errorf("poll %s: %d %s %w", operation, r.Status, r.Raw, err)
		}
		switch r.String("state") {
		case "succeeded":
			return outcome{r, false}, nil
		case "failed":
			return outcome{r, true}, nil
		}
		time.Sleep(100 * time.Millisecond) // as platforms poll
	}
	return outcome{}, fmt.Errorf("%s is still in progress after %v", operation, patience)
}
