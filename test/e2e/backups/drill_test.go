package backups

import (
	"database/sql"
	"encoding/json"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

// drill has the instances at the time of the disaster, by what happened to them. Before the backup, all were made but
// late and lateServer, and undeleted was deleted. Since then, the binding of definer, whose account is kept, and that of
// unbound were deleted, and so were deleted, deletedServer and retained, whose data is kept. The data of moved was moved
// to a server of its own. The provision of halfway was in progress.
type drill struct {
	all         map[string]*drillInstance
	lateBinding testdrive.Credentials // of kept, made since
	token       string                // of an operation since
}

// TestDisasterDrill follows docs/upgrade.md, section "PostgreSQL from a backup", with everything that can go wrong.
func TestDisasterDrill(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	server := testdrive.StartCrashable(t, s.Flavour)
	env := testdrive.QuotaEnvironment(t, server.MySQL)
	env["CATALOG"] = testdrive.CatalogWith(t, env["CATALOG"], "shared-async", "keep_deleted_days: 7")
	p := testdrive.StartPlatform(t, server.MySQL, env)
	d := &drill{all: map[string]*drillInstance{}}
	d.before(t, p)
	backup := testdrive.DumpPostgres(t, env["DATABASE_URL"])
	d.since(t, p, env)
	last := testdrive.OpenTasks(t, env).Last(t)
	testdrive.StopBroker(t, p)

	testdrive.RestorePostgres(t, env["DATABASE_URL"], backup)
	testdrive.OpenTasks(t, env).Exec(t, `WITH half AS (
			UPDATE instance SET state = 'creating' WHERE id = '`+d.all["halfway"].ID+`' RETURNING id)
		UPDATE task SET state = 'in progress', step = '', finished_at = NULL, run_at = now() FROM half
		WHERE instance_id = half.id AND kind = 'provision'`)
	let := server.Crash(t)
	p = testdrive.StartPlatform(t, server.MySQL, env)
	testdrive.ExpectFigures(t, p, map[string]string{"mysql_broker_held": "1"})
	<-time.After(downTime)
	let()
	testdrive.Eventually(t, "the shared server is back", func() bool {
		return p.Scrape(t)[`mysql_broker_shared_server_up{server="shared-1"}`] == "1"
	})
	testdrive.ExpectHeld(t, p, "loaded from a dump")
	admin := p.Admin(t)
	d.expectTables(t, admin)

	// Nothing is said of what PostgreSQL does not know, which need not be gone. What other requests get meanwhile, package
	// provisioner tests.
	late := d.all["late"].Via(p)
	for _, r := range []testdrive.Response{late.Fetch(t), late.Deprovision(t, testdrive.Sync),
		late.NewBinding().Bind(t, nil), d.all["kept"].Via(p).Poll(t, "?operation=task_1000000")} {
		testdrive.ExpectRefusal(t, r, http.StatusServiceUnavailable, "restored from a backup")
	}

	shown := testdrive.RunRecover(t, env, 0)
	d.expectActions(t, shown)
	assert.False(t, strings.Contains(shown, d.all["kept"].c.Password) || strings.Contains(shown, d.lateBinding.Password),
		"recover prints a password")
	_, table, _ := strings.Cut(shown, "\n") // before, it tells the time
	again := testdrive.RunRecover(t, env, 0)
	assert.True(t, strings.HasSuffix(again, table),
		"recover changes something, or shows it in another order:\n%s\n%s", shown, again)
	testdrive.ExpectHeld(t, p, "loaded from a dump")
	o := p.Operator(env)
	// What was made there since the backup is there all the same.
	assert.Contains(t, o.Run(t, 0, "drain", "shared-1").Stdout, "No shared server is left", "drain of the only one")
	var done struct {
		Held    map[string]string
		Resumed bool
		Items   []struct{ Action, Error string }
	}
	err := json.Unmarshal([]byte(testdrive.RunRecover(t, env, 0, "--apply", "--json")), &done)
	require.True(t, err == nil && done.Resumed, "%v: %+v", err, done)
	testdrive.ExpectFigures(t, p, map[string]string{"mysql_broker_held": "0"})
	r := p.Do(t, http.MethodGet, "/readyz", nil).Expect(t, http.StatusOK)
	assert.Equal(t, "ok", r.String("status"), "/readyz says %s", r.Raw)

	testdrive.ExpectLine(t, o.Run(t, 0, "servers").Stdout, "shared-1", "drained\t11")
	testdrive.ExpectRefusal(t, p.NewInstance(t, "shared-small").Provision(t, testdrive.Sync, nil), 400, "no room")
	testdrive.Eventually(t, "metrics tell of the drain and the refusal", func() bool {
		shown := p.Scrape(t)
		return shown[`mysql_broker_shared_server_drained{server="shared-1"}`] == "1" &&
			shown["mysql_broker_shared_servers_full_total"] == "1"
	})
	assert.Equal(t, "shared-1 gets instances again.\n", o.Run(t, 0, "drain", "--undo", "shared-1").Stdout, "drain --undo")
	d.expectTables(t, admin)
	for _, i := range d.all {
		i.Instance = i.Via(p)
		i.binding.Instance = i.Instance
	}
	d.expectAccess(t)
	d.expectAnswers(t)
	awaitHealthy(t, env)
	rotated := d.all["rotated"]
	o.Run(t, 0, "rotate-bindings", "--instance", rotated.ID, "--apply")
	testdrive.Read[int](t, rotated.Credentials(t, rotated.binding.Fetch(t)).Open(t), "SELECT id FROM orders")
	refusedAgain := testdrive.RunRecover(t, env, 1, "--apply")
	assert.Contains(t, refusedAgain, "--force", "without a reason, recover --apply")
	testdrive.ExpectFigures(t, p, map[string]string{"mysql_broker_held": "0"})
	i := p.OwnInstance(t, "dedicated-small")
	token := i.BeginProvision(t)
	id, err := strconv.ParseInt(strings.TrimPrefix(token, "task_"), 10, 64)
	assert.True(t, err == nil && id > last && token != d.token,
		"the next operation is %s, the last one before was task_%d", token, last)
	i.Await(t, token)
	i.Remove(t)
	d.all["retained"].Create(t, cf(body{"parameters": body{"undelete": d.all["retained"].ID}}), http.StatusCreated)
	d.expectTables(t, admin)
	for i := range d.of("retained undeleted") {
		i.Update(t, testdrive.Async, body{"parameters": body{"keep_deleted_days": 0}}).Expect(t, http.StatusOK)
	}
	for i := range d.of("kept changed full definer unbound halfway late dedicated lateServer moved retained undeleted rotated") {
		i.Remove(t)
	}
	testdrive.ExpectTenants(t, admin, 0, 0)
	testdrive.ExpectNoProcess(t, env["LAUNCHER_DIR"])
}

// of yields the instances of some names.
func (d *drill) of(names string) iter.Seq[*drillInstance] {
	return func(yield func(*drillInstance) bool) {
		for name := range strings.FieldsSeq(names) {
			if !yield(d.all[name]) {
				return
			}
		}
	}
}

func (d *drill) make(t *testing.T, p testdrive.Platform, plan, names string) {
	for name := range strings.FieldsSeq(names) {
		i := &drillInstance{Instance: p.OwnInstance(t, plan)}
		i.Create(t, cf(nil), http.StatusCreated)
		i.binding, i.c = i.Bound(t, nil)
		testdrive.Exec(t, i.c.Open(t), "CREATE TABLE orders (id INT PRIMARY KEY)", "INSERT INTO orders VALUES (4711)")
		d.all[name] = i
	}
}

// before is the work until the backup.
func (d *drill) before(t *testing.T, p testdrive.Platform) {
	d.make(t, p, "shared-small", "kept full changed definer unbound deleted halfway moved rotated")
	d.make(t, p, "shared-async", "retained undeleted")
	d.all["undeleted"].Delete(t)
	d.make(t, p, "dedicated-small", "dedicated deletedServer")
}

// since is the work after it.
func (d *drill) since(t *testing.T, p testdrive.Platform, env map[string]string) {
	d.make(t, p, "shared-small", "late")
	d.make(t, p, "dedicated-small", "lateServer")
	_, d.lateBinding = d.all["kept"].Bound(t, nil)
	testdrive.Exec(t, d.all["definer"].c.Open(t), "CREATE VIEW all_orders AS SELECT * FROM orders")
	for i := range d.of("definer unbound") {
		testdrive.ExpectEmpty(t, i.binding.Unbind(t), http.StatusOK)
	}
	for i := range d.of("deleted deletedServer retained") {
		i.Delete(t)
	}
	back := d.all["undeleted"]
	back.Create(t, cf(body{"parameters": body{"undelete": back.ID}}), http.StatusCreated)
	moved := d.all["moved"]
	moved.Await(t, moved.UpdatePlan(t, testdrive.Async, "dedicated-small").Operation(t))
	testdrive.Exec(t, moved.Credentials(t, moved.binding.Fetch(t)).Open(t), "CREATE TABLE made_since_the_move (id INT)")
	testdrive.ExpectEmpty(t, d.all["changed"].UpdatePlan(t, testdrive.Sync, "shared-large"), http.StatusOK)
	server := d.all["lateServer"]
	d.token = server.UpdatePlan(t, testdrive.Async, "dedicated-large").Operation(t)
	server.Await(t, d.token)
	testdrive.Overfill(t, d.all["full"].c.Open(t), testdrive.QuotaSmall)
	testdrive.Run(t, env, "rotate-admin-passwords", d.all["dedicated"].ID).Expect(t, 0)
	rotated := d.all["rotated"]
	p.Operator(env).Run(t, 0, "rotate-bindings", "--instance", rotated.ID, "--apply")
	rotated.c = rotated.Credentials(t, rotated.binding.Fetch(t))
}

// expectTables looks for the data of every instance on the shared server that there is.
func (d *drill) expectTables(t *testing.T, admin *sql.DB) {
	for i := range d.of("kept full changed definer unbound halfway late retained undeleted rotated") {
		id := testdrive.Read[int](t, admin, "SELECT id FROM `"+i.c.Database+"`.orders")
		assert.Equal(t, 4711, id, "the data of instance %s: %d", i.ID, id)
	}
}

func (d *drill) expectActions(t *testing.T, shown string) {
	for action, of := range map[string]map[string]string{ // of instances by kind, and the action on their accounts
		"end": {"task": "halfway"}, "forget": {"instance": "deleted deletedServer", "binding": "unbound"},
		"adopt": {"instance": "late lateServer undeleted", "plan": "changed", "admin password": "dedicated", "place": "moved",
			"retained data": "retained"},
		"shut": {"account": "late lateServer"}, "settle": {"account": "full"},
	} {
		for kind, names := range of {
			for i := range d.of(names) {
				about := i.ID
				if kind == "binding" || kind == "account" {
					about = i.c.Username
				}
				testdrive.ExpectLine(t, shown, action, kind, about)
			}
		}
	}
	testdrive.ExpectLine(t, shown, "shut", "account", d.lateBinding.Username)
	for i := range d.of("rotated definer") {
		testdrive.ExpectLine(t, shown, "look", "password", i.c.Username)
	}
	assert.Equal(t, 2, strings.Count(shown, "rotate-bindings"), "other passwords were replaced:\n%s", shown)
}

// expectAccess tries every account: only those of recorded bindings can log in.
func (d *drill) expectAccess(t *testing.T) {
	expect := func(what string, c testdrive.Credentials) {
		assert.Equal(t, 4711, testdrive.Read[int](t, c.Open(t), "SELECT id FROM orders"), "%s reads", what)
	}
	for i := range d.of("kept full changed halfway dedicated rotated") {
		expect("the binding of "+i.ID, i.c)
	}
	moved := d.all["moved"]
	c := moved.Credentials(t, moved.binding.Fetch(t).Expect(t, http.StatusOK))
	expect("the binding of what was moved", c)
	testdrive.Exec(t, c.Open(t), "INSERT INTO made_since_the_move VALUES (1)")
	testdrive.ExpectRefused(t, d.lateBinding.ByURI(t))
	for i := range d.of("definer unbound deleted late lateServer") {
		testdrive.ExpectRefused(t, i.c.ByURI(t))
	}
	for i := range d.of("late lateServer kept unbound definer dedicated") {
		_, c := i.Bound(t, nil)
		expect("a new binding of "+i.ID, c)
	}
	db := d.all["full"].c.Open(t)
	testdrive.AwaitRefused(t, db)                                // the quota holds again, and its end is noticed
	testdrive.Eventually(t, "data can be removed", func() bool { // the earlier sessions are ended meanwhile
		return testdrive.ErrorOf(t, db, "TRUNCATE filler") == nil
	})
	testdrive.AwaitAllowed(t, db)
}

// expectAnswers asks about what the platform knows.
func (d *drill) expectAnswers(t *testing.T) {
	for i := range d.of("kept full changed halfway dedicated late lateServer moved undeleted") {
		i.Fetch(t).Expect(t, http.StatusOK)
	}
	for name, plan := range map[string]string{"changed": "shared-large", "lateServer": "dedicated-large"} {
		_, id := testdrive.Plan(t, plan)
		assert.Equal(t, id, d.all[name].Fetch(t).String("plan_id"), "the plan of instance %s is not %s", name, plan)
	}
	for i := range d.of("deleted deletedServer retained") {
		i.Fetch(t).Expect(t, http.StatusNotFound)
		i.Deprovision(t, testdrive.Async).Expect(t, http.StatusGone)
	}
	d.all["unbound"].binding.Unbind(t).Expect(t, http.StatusGone)
	d.all["lateServer"].Poll(t, "?operation="+d.token).Expect(t, http.StatusBadRequest) // nobody knows it any more
}
