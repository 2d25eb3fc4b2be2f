package model

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"mysql-broker/broker/catalog"
	"mysql-broker/provisioner/plan"
	"mysql-broker/test/audit"
	"mysql-broker/test/limits"
	"mysql-broker/test/platform"
	"mysql-broker/test/testdrive"
)

// world is three replicas of one broker, and all that they depend on, with proxies between that fail at will.
type world struct {
	t         testing.TB
	env       map[string]string // of the brokers
	postgres  *testdrive.Proxy
	mysql     *testdrive.Proxy
	records   *pgxpool.Pool // past the proxy
	compared  audit.World   // but for what the platforms were told
	admin     *sql.DB       // past the proxy
	mysqlHome string        // the directory of the shared server
	plans     map[string]plan.Plan
	offered   map[string]platform.Plan
	contended []string // ids of instances that all clients fight for
	busy      bool     // other tests run on this machine at the same time

	replicas [3]atomic.Pointer[testdrive.Broker]
	starting sync.Mutex // brokers need PostgreSQL to start
	aim      aim

	mu      sync.Mutex
	outages period // of PostgreSQL or MySQL
	trouble period // of any kind
	counts  map[string]int
}

// retaining are the plans that keep the data of deleted instances.
var retaining = []string{"shared-large", "shared-async"}

// period is the time during which something is wrong.
type period struct {
	going int
	end   time.Time // of the last one that ended
}

func (p *period) reaches(since time.Time, aftermath time.Duration) bool {
	return p.going > 0 || since.Before(p.end.Add(aftermath))
}

// aftermath is for how long after an outage requests may still fail: connections are found to be dead, killed servers
// recover, and tasks are tried again.
func (w *world) aftermath() time.Duration {
	if w.busy {
		return time.Minute
	}
	return 20 * time.Second
}

// notNow reports whether a response is "not now" for want of time: on a busy machine PostgreSQL or MySQL may answer a
// statement later than the broker waits.
func (w *world) notNow(r testdrive.Response) bool {
	return w.busy && r.Status == http.StatusServiceUnavailable
}

func newWorld(t *testing.T, flavour string, busy bool) *world {
	w := &world{t: t, plans: map[string]plan.Plan{}, offered: map[string]platform.Plan{}, contended: []string{"contended-0", "contended-1"}, busy: busy,
		counts: map[string]int{}}
	private := testdrive.StartCrashable(t, flavour).MySQL
	w.admin = private.Admin(t)
	require.NoError(t, w.admin.QueryRow("SELECT @@datadir").Scan(&w.mysqlHome))
	w.mysqlHome = filepath.Dir(filepath.Clean(w.mysqlHome))
	w.mysql = testdrive.NewProxy(t, private.Address())
	through := private
	through.Port = w.mysql.Port()
	w.env = testdrive.Environment(t, through)
	w.env["ANSWER_TIMEOUT"] = "2s" // some servers do not respond
	w.env["BACKUP_STORE"] = "file://" + t.TempDir()
	w.env["CATALOG"] = testdrive.RetainingCatalog(t, retaining...)
	direct := testdrive.StartPostgres(t).URL // its own, whose settings it changes
	w.env["DATABASE_URL"] = direct
	w.records = testdrive.OpenTasks(t, w.env).Pool
	w.compared = testdrive.AuditOf(t, w.env, w.admin)
	w.postgres, w.env["DATABASE_URL"] = testdrive.ProxyURL(t, direct)
	all, err := catalog.Load(w.env["CATALOG"])
	require.NoError(t, err)
	w.compared.Plans = all.Plans()
	for _, p := range w.compared.Plans {
		w.plans[p.Name], w.offered[p.Name] = p, platform.NamedPlan(t, p.Name)
	}
	testdrive.NewFaults(t, w.env).Decide(w.aim.decide)
	for n := range w.replicas {
		w.start(n)
	}
	return w
}

// start starts a replica once no outage of PostgreSQL keeps it from it.
func (w *world) start(n int) {
	w.starting.Lock()
	defer w.starting.Unlock()
	w.replicas[n].Store(testdrive.Start(w.t, w.env))
}

// wrong reports what must not be.
func (w *world) wrong(format string, args ...any) {
	w.t.Errorf("%s "+format, append([]any{time.Now().Format("15:04:05.000")}, args...)...)
}

func (w *world) count(kind, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[kind+" "+what]++
}

// fail is called when something begins to fail, and returns what to call when that has ended.
func (w *world) fail(periods ...*period) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range periods {
		p.going++
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, p := range periods {
			p.going--
			p.end = time.Now()
		}
	}
}

// excused reports whether a request that began at that time may have failed because of an outage.
func (w *world) excused(since time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.outages.reaches(since, w.aftermath())
}

// troubled reports whether it may have stayed without a response because of anything.
func (w *world) troubled(since time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.trouble.reaches(since, w.aftermath())
}

// conclusive reports whether a response says what has become of a request. Where it does not, there must be a reason.
func (w *world) conclusive(id string, q request, asked time.Time, r testdrive.Response, err error) bool {
	switch {
	case errors.Is(err, context.Canceled): // the client went away
		w.count("answer", "no answer")
		return false
	case err != nil:
		w.count("answer", "no answer")
		if !w.troubled(asked) {
			w.wrong("%s of %s: %v, and nothing failed", q, id, err)
		}
		return false
	case r.Status >= http.StatusInternalServerError:
		w.count("answer", fmt.Sprint(r.Status))
		switch {
		case w.excused(asked):
		case w.notNow(r):
			w.count("answer", "503 without an outage")
		default:
			w.wrong("%s of %s: status %d, and neither PostgreSQL nor MySQL failed: %s", q, id, r.Status, r.Raw)
		}
		return false
	}
	w.count("answer", fmt.Sprint(r.Status))
	return true
}

// waited reports whether a request was refused because an outage of PostgreSQL keeps a lock for longer than the broker
// waits. That changes nothing, and says nothing about the instance.
func (w *world) waited(asked time.Time, r testdrive.Response) bool {
	return r.Status == http.StatusUnprocessableEntity && strings.Contains(r.String("description"), "has to wait for") &&
		(w.busy || w.excused(asked))
}

// send sends a request to any replica that listens. One that nobody accepted goes to another.
func (w *world) send(ctx context.Context, random *rand.Rand, q request, wire platform.Request) (testdrive.Response, error) {
	w.count("request", string(q))
	for {
		r, err := w.replicas[random.IntN(len(w.replicas))].Load().SendFor(ctx, wire.Method, wire.Path, wire.Body, nil)
		if !errors.Is(err, syscall.ECONNREFUSED) || ctx.Err() != nil {
			return r, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// wire is how a request looks in HTTP.
func (w *world) wire(i *instance, q request, b *credential, planName string) platform.Request {
	p, path := w.offered[i.plan], platform.InstancePath(i.id)
	if b != nil {
		path = platform.BindingPath(i.id, b.ID)
	}
	switch q {
	case create, createOther:
		parameters := map[string]any{}
		switch {
		case i.undelete:
			parameters["undelete"] = i.id
		case i.from != "":
			parameters["restore_from"] = i.from
		case i.source != nil:
			parameters["clone_from"] = i.source.id
		}
		r := p.ProvisionWith(i.id, parameters)
		r.Body.(map[string]any)["space_guid"] = q
		if i.source != nil {
			return p.InBackground(r)
		}
		return r
	case update:
		return p.Update(i.id, w.offered[planName])
	case backUp:
		return p.BackUp(i.id)
	case restore:
		return p.RestoreInPlace(i.id, i.backup)
	case remove:
		return p.InBackground(p.Deprovision(i.id))
	case bind, bindAgain, bindOther:
		r := p.Bind(i.id, b.ID)
		r.Body.(map[string]any)["parameters"] = map[string]any{"role": b.Role}
		if q == bindOther {
			r.Body.(map[string]any)["bind_resource"] = map[string]any{"app_guid": "another-app"}
		}
		return r
	case unbind:
		return p.Unbind(i.id, b.ID)
	case poll:
		path += "/last_operation?operation=" + i.operation
	}
	return platform.Request{Method: "GET", Path: path}
}

// audit compares what was told with what there is.
func (w *world) audit(reported audit.Reported) []string {
	ctx, cancel := context.WithTimeout(context.Background(), limits.Stuck)
	defer cancel()
	all := w.compared
	all.Reported = reported
	return audit.Check(ctx, all)
}
