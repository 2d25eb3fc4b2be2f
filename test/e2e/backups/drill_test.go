package backups

import (
	"database/sql"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// downTime is for how long the shared server stays away in the drill. Six attempts at a step, with pauses that double
// from a second, take less.
const downTime = 45 * time.Second

// drillInstance is an instance with a table, and an account that may read it.
type drillInstance struct {
	testdrive.Instance
	binding testdrive.Binding
	c       testdrive.Credentials
}

// drill is the state at the time of the disaster.
type drill struct {
	kept, full, changed, dedicated drillInstance         // made before the backup
	definer                        drillInstance         // before, and unbound since; its account is kept, locked
	unbound                        drillInstance         // before, and unbound since
	deleted, deletedServer         drillInstance         // before, and deleted since
	halfway                        drillInstance         // its provision was in progress
	late, lateServer               drillInstance         // made since
	lateBinding                    testdrive.Credentials // of kept, made since
	tokens                         []string              // of operations since
}

// TestDisasterDrill follows docs/upgrade.md, section "PostgreSQL from a backup", with everything that can go wrong.
func TestDisasterDrill(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	server := testdrive.StartCrashable(t, s.Flavour)
	env := testdrive.QuotaEnvironment(t, server.MySQL)
	p := testdrive.StartPlatform(t, server.MySQL, env)
	d := &drill{}
	d.before(t, p)
	backup := testdrive.DumpPostgres(t, env["DATABASE_URL"])
	d.since(t, p, env)
	last := testdrive.OpenTasks(t, env).Last(t)
	testdrive.StopBroker(t, p)

	testdrive.RestorePostgres(t, env["DATABASE_URL"], backup)
	testdrive.OpenTasks(t, env).Exec(t, `WITH half AS (
			UPDATE instance SET state = 'creating' WHERE id = '`+d.halfway.ID+`' RETURNING id)
		UPDATE task SET state = 'in progress', step = '', finished_at = NULL, run_at = now() FROM half
		WHERE instance_id = half.id AND kind = 'provision'`)
	let := server.Crash(t)
	p = testdrive.StartPlatform(t, server.MySQL, env)
	testdrive.ExpectFigures(t, p, map[string]string{"mysql_broker_held": "1"})
	<-time.After(downTime)
	let()
	testdrive.Eventually(t, limits.Stuck, "the shared server is back", func() bool {
		return p.Scrape(t)[`mysql_broker_shared_server_up{server="shared-1"}`] == "1"
	})
	testdrive.ExpectHeld(t, p, "loaded from a dump")
	admin := p.Admin(t)
	d.expectTables(t, admin)

	shown := testdrive.RunRecover(t, env, 0)
	d.expectActions(t, shown)
	if strings.Contains(shown, d.kept.c.Password) || strings.Contains(shown, d.lateBinding.Password) {
		t.Error("recover prints a password")
	}
	_, table, _ := strings.Cut(shown, "\n") // before, it tells the time
	if again := testdrive.RunRecover(t, env, 0); !strings.HasSuffix(again, table) {
		t.Errorf("recover changes something, or shows it in another order:\n%s\n%s", shown, again)
	}
	testdrive.ExpectHeld(t, p, "loaded from a dump")
	o := p.Operator(env)
	o.Run(t, 0, "drain", "shared-1") // what was made there since the backup is there all the same
	var done struct {
		Held    map[string]string
		Resumed bool
		Items   []struct{ Action, Error string }
	}
	if err := json.Unmarshal([]byte(testdrive.RunRecover(t, env, 0, "--apply", "--json")), &done); err != nil || !done.Resumed {
		t.Fatalf("%v: %+v", err, done)
	}
	testdrive.ExpectFigures(t, p, map[string]string{"mysql_broker_held": "0"})
	if r := p.Do(t, http.MethodGet, "/readyz", nil).Expect(t, http.StatusOK); r.String("status") != "ok" {
		t.Errorf("/readyz says %s", r.Raw)
	}

	testdrive.ExpectLine(t, o.Run(t, 0, "servers").Stdout, "shared-1", "drained", "7")
	testdrive.ExpectRefusal(t, p.NewInstance(t, "shared-small").Provision(t, testdrive.Sync, nil), 400, "no room")
	o.Run(t, 0, "drain", "--undo", "shared-1")
	d.expectTables(t, admin)
	d.via(p)
	d.expectAccess(t, p)
	d.expectAnswers(t, p)
	testdrive.Eventually(t, testdrive.QuotaTime, "the doctor finds nothing", func() bool {
		out := testdrive.RunDoctor(t, env)
		return out.Status == 0 && strings.HasPrefix(out.Stdout, "All is well.")
	})
	refusedAgain := testdrive.RunRecover(t, env, 1, "--apply")
	if !strings.Contains(refusedAgain, "--force") {
		t.Errorf("without a reason, recover --apply printed %q", refusedAgain)
	}
	testdrive.ExpectFigures(t, p, map[string]string{"mysql_broker_held": "0"})
	d.expectNewTokens(t, p, last)
	d.removeAll(t, p)
	testdrive.ExpectTenants(t, admin, 0, 0)
	testdrive.ExpectNoProcess(t, env["LAUNCHER_DIR"])
}

func newDrillInstance(t *testing.T, p testdrive.Platform, plan string) drillInstance {
	t.Helper()
	i := drillInstance{Instance: p.OwnInstance(t, plan)}
	if strings.HasPrefix(plan, "dedicated") {
		i.Await(t, i.BeginProvision(t))
	} else {
		i.Provision(t, testdrive.Sync, nil).Expect(t, http.StatusCreated)
	}
	i.binding, i.c = i.Bound(t, nil)
	testdrive.Exec(t, i.c.Open(t), "CREATE TABLE orders (id INT PRIMARY KEY)", "INSERT INTO orders VALUES (4711)")
	return i
}

// before is the work until the backup.
func (d *drill) before(t *testing.T, p testdrive.Platform) {
	t.Helper()
	for _, i := range []*drillInstance{&d.kept, &d.full, &d.changed, &d.definer, &d.unbound, &d.deleted, &d.halfway} {
		*i = newDrillInstance(t, p, "shared-small")
	}
	d.dedicated, d.deletedServer = newDrillInstance(t, p, "dedicated-small"), newDrillInstance(t, p, "dedicated-small")
}

// since is the work after it.
func (d *drill) since(t *testing.T, p testdrive.Platform, env map[string]string) {
	t.Helper()
	d.late, d.lateServer = newDrillInstance(t, p, "shared-small"), newDrillInstance(t, p, "dedicated-small")
	_, d.lateBinding = d.kept.Bound(t, nil)
	testdrive.Exec(t, d.definer.c.Open(t), "CREATE VIEW all_orders AS SELECT * FROM orders")
	testdrive.ExpectEmpty(t, d.definer.binding.Unbind(t), http.StatusOK)
	testdrive.ExpectEmpty(t, d.unbound.binding.Unbind(t), http.StatusOK)
	testdrive.ExpectEmpty(t, d.deleted.Deprovision(t, testdrive.Sync), http.StatusOK)
	d.deletedServer.Remove(t)
	testdrive.ExpectEmpty(t, d.changed.UpdatePlan(t, testdrive.Sync, "shared-large"), http.StatusOK)
	d.tokens = append(d.tokens, d.lateServer.UpdatePlan(t, testdrive.Async, "dedicated-large").Expect(t, http.StatusAccepted).
		String("operation"))
	d.lateServer.Await(t, d.tokens[0])
	testdrive.Overfill(t, d.full.c.Open(t), testdrive.QuotaSmall)
	testdrive.Run(t, env, "rotate-admin-passwords", d.dedicated.ID).Expect(t, 0)
}

func (d *drill) via(p testdrive.Platform) {
	for _, i := range []*drillInstance{&d.kept, &d.full, &d.changed, &d.definer, &d.unbound, &d.deleted, &d.halfway,
		&d.dedicated, &d.deletedServer, &d.late, &d.lateServer} {
		i.Instance = i.Instance.Via(p)
		i.binding.Instance = i.Instance
	}
}

// expectTables looks for the data of every instance on the shared server that there is.
func (d *drill) expectTables(t *testing.T, admin *sql.DB) {
	t.Helper()
	for name, i := range map[string]drillInstance{"kept": d.kept, "full": d.full, "changed": d.changed,
		"definer": d.definer, "unbound": d.unbound, "halfway": d.halfway, "late": d.late} {
		var id int
		if err := admin.QueryRowContext(t.Context(), "SELECT id FROM `"+i.c.Database+"`.orders").Scan(&id); err != nil ||
			id != 4711 {
			t.Errorf("the data of instance %s: %d, %v", name, id, err)
		}
	}
}

func (d *drill) expectActions(t *testing.T, shown string) {
	t.Helper()
	for _, line := range [][]string{
		{"end", "task", d.halfway.ID},
		{"forget", "instance", d.deleted.ID},
		{"forget", "instance", d.deletedServer.ID},
		{"forget", "binding", d.unbound.c.Username},
		{"adopt", "instance", d.late.ID},
		{"adopt", "instance", d.lateServer.ID},
		{"adopt", "plan", d.changed.ID},
		{"adopt", "admin password", d.dedicated.ID},
		{"shut", "account", d.lateBinding.Username},
		{"shut", "account", d.late.c.Username},
		{"shut", "account", d.lateServer.c.Username},
		{"settle", "account", d.full.c.Username},
	} {
		testdrive.ExpectLine(t, shown, line...)
	}
}

// expectAccess tries every account: only those of recorded bindings can log in.
func (d *drill) expectAccess(t *testing.T, p testdrive.Platform) {
	t.Helper()
	for name, c := range map[string]testdrive.Credentials{"kept": d.kept.c, "full": d.full.c, "changed": d.changed.c,
		"halfway": d.halfway.c, "dedicated": d.dedicated.c} {
		var id int
		if err := c.Open(t).QueryRowContext(t.Context(), "SELECT id FROM orders").Scan(&id); err != nil || id != 4711 {
			t.Errorf("the binding of instance %s reads %d, %v", name, id, err)
		}
	}
	for _, c := range []testdrive.Credentials{d.definer.c, d.unbound.c, d.deleted.c, d.late.c, d.lateServer.c, d.lateBinding} {
		testdrive.ExpectRefused(t, c.ByURI(t))
	}
	for _, i := range []drillInstance{d.late, d.lateServer, d.kept, d.unbound, d.definer, d.dedicated} { // bound anew
		_, c := i.Bound(t, nil)
		if id := testdrive.Read[int](t, c.Open(t), "SELECT id FROM orders"); id != 4711 {
			t.Errorf("a new binding reads %d", id)
		}
	}
	testdrive.AwaitRefused(t, d.full.c.Open(t)) // the quota holds again, and its end is noticed
	db := d.full.c.Open(t)
	testdrive.Eventually(t, testdrive.QuotaTime, "data can be removed", func() bool { // the earlier sessions are ended meanwhile
		_, err := db.ExecContext(t.Context(), "TRUNCATE filler")
		return err == nil
	})
	testdrive.AwaitAllowed(t, d.full.c.Open(t))
}

// expectAnswers asks about what the platform knows.
func (d *drill) expectAnswers(t *testing.T, p testdrive.Platform) {
	t.Helper()
	for _, i := range []drillInstance{d.kept, d.full, d.changed, d.halfway, d.dedicated, d.late, d.lateServer} {
		i.Fetch(t).Expect(t, http.StatusOK)
	}
	for i, plan := range map[*drillInstance]string{&d.changed: "shared-large", &d.lateServer: "dedicated-large"} {
		if _, id := testdrive.Plan(t, plan); i.Fetch(t).String("plan_id") != id {
			t.Errorf("the plan of instance %s is not %s", i.ID, plan)
		}
	}
	for _, i := range []drillInstance{d.deleted, d.deletedServer} {
		i.Fetch(t).Expect(t, http.StatusNotFound)
		i.Deprovision(t, testdrive.Async).Expect(t, http.StatusGone)
	}
	d.unbound.binding.Unbind(t).Expect(t, http.StatusGone)
	for _, token := range d.tokens { // nobody knows it any more, and nobody else has it
		d.lateServer.Poll(t, "?operation="+token).Expect(t, http.StatusBadRequest)
	}
}

// expectNewTokens fails the test if the name of an operation is used twice.
func (d *drill) expectNewTokens(t *testing.T, p testdrive.Platform, last int64) {
	t.Helper()
	i := p.OwnInstance(t, "dedicated-small")
	token := i.BeginProvision(t)
	id, err := strconv.ParseInt(strings.TrimPrefix(token, "task_"), 10, 64)
	if err != nil || id <= last || slices.Contains(d.tokens, token) {
		t.Errorf("the next operation is %s, the last one before was task_%d", token, last)
	}
	i.Await(t, token)
	i.Remove(t)
}

func (d *drill) removeAll(t *testing.T, p testdrive.Platform) {
	t.Helper()
	for _, i := range []drillInstance{d.kept, d.full, d.changed, d.definer, d.unbound, d.halfway, d.late} {
		testdrive.ExpectEmpty(t, i.Deprovision(t, testdrive.Sync), http.StatusOK)
	}
	d.dedicated.Remove(t)
	d.lateServer.Remove(t)
}
