package quota_test

import (
	"database/sql"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/quota"
	"mysql-broker/store"
	"mysql-broker/test/inprocess"
	"mysql-broker/test/logged"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestMain(m *testing.M) { servers.Main(m) }

// quotaMB is small, so that tests need not write much, and large enough that a plan of one MiB more is less than five
// per cent larger.
const quotaMB = 32

var (
	small = plan.Plan{ID: "small", Name: "small", ServiceID: "mysql", Kind: plan.Shared, Async: plan.AsyncNever,
		MaxStorageMB: quotaMB, MaxConnections: 20, MaxBindings: 10, AllowCrossSpace: true}
	same     = planLike(small, "same", quotaMB)
	large    = planLike(small, "large", 3*quotaMB)
	eventful = plan.Plan{ID: "eventful", Name: "eventful", ServiceID: "mysql", Kind: plan.Shared, Async: plan.AsyncNever,
		MaxStorageMB: quotaMB, MaxConnections: 20, MaxBindings: 10, Events: true}
	dedicated = plan.Plan{ID: "dedicated", Name: "dedicated", ServiceID: "mysql", Kind: plan.Dedicated,
		Async: plan.AsyncPreferred, MaxStorageMB: quotaMB, MemoryMB: 256, MaxConnections: 20, MaxBindings: 10}
)

func planLike(p plan.Plan, name string, megabytes int) plan.Plan {
	p.ID, p.Name, p.MaxStorageMB = name, name, megabytes
	return p
}

func plans() plan.Set { return plan.Set{small, same, large, eventful, dedicated} }

// fixture is a site on which no guard runs yet.
type fixture struct {
	*inprocess.Site
	log logged.Text // of guards
}

func newFixture(t *testing.T, s servers.MySQL) *fixture {
	return newFixtureIn(t, s, testdrive.Environment(t, s))
}

func newFixtureIn(t *testing.T, s servers.MySQL, env map[string]string) *fixture {
	return &fixture{Site: inprocess.New(t, s, env, plans())}
}

// guard starts a guard that ends with the test, if not before. Where plans are given, they replace those of that id.
func (f *fixture) guard(changed ...plan.Plan) *quota.Guard {
	return f.guardEvery(100*time.Millisecond, changed...)
}

func (f *fixture) guardEvery(interval time.Duration, changed ...plan.Plan) *quota.Guard {
	all := append(changed, plans()...) // of which the first one with an id counts
	g := quota.Start(quota.Config{Store: f.Store, Plans: all, Fleet: f.Fleet, Interval: interval,
		Logger: slog.New(slog.NewTextHandler(&f.log, nil))})
	f.Cleanup(g.Close)
	return g
}

// update changes the plan of an instance.
func (f *fixture) update(i store.Instance, to plan.Plan) {
	_, err := f.Broker.Update(f.Context(), engine.UpdateRequest{InstanceID: i.ID, ServiceID: i.ServiceID, Plan: to})
	f.Must(err)
}

// account is a binding and its login.
type account struct {
	id    string
	login testdrive.Credentials
	*sql.DB
}

func (f *fixture) bind(i store.Instance, role plan.Role) account {
	return f.bindAs(i, uuid.NewString(), role)
}

func (f *fixture) bindAs(i store.Instance, id string, role plan.Role) account {
	login := f.Bind(i, id, plan.BindingParameters{Role: role})
	return account{id, login, login.Open(f.T)}
}

// fill has an administrator, whose sessions no guard ends, add so many MiB to a table of the instance's tenant.
func (f *fixture) fill(i store.Instance, mebibytes int) {
	rows := slices.Repeat([]string{"(REPEAT('x', 1 << 20))"}, mebibytes)
	testdrive.Exec(f.T, f.Root, "INSERT INTO `"+i.Database+"`.filler (content) VALUES "+strings.Join(rows, ", "))
}

// filled makes an instance that holds more than its quota, and a binding of it.
func (f *fixture) filled() (store.Instance, account) {
	i := f.Provision(small)
	a := f.bind(i, plan.ReadWrite)
	testdrive.Fill(f.T, a.DB, 0)
	f.fill(i, quotaMB+4)
	return i, a
}

// awaitOver waits until an instance is recorded as over its quota, or not, and its accounts have the privileges.
func (f *fixture) awaitOver(i store.Instance, over bool) {
	testdrive.Eventually(f, fmt.Sprintf("over its quota: %t", over), func() bool {
		return (f.Instance(i.ID).OverSince != nil) == over && f.due(i) == 0
	})
}

// due counts the accounts whose privileges have to change.
func (f *fixture) due(i store.Instance) int {
	due, err := f.Store.Bindings.DueAccounts(f.Context(), i.Location.Dedicated(), i.ID, store.DueAccount{}, 100)
	f.Must(err)
	return len(due)
}

// awaitRound waits until a round has begun and ended since the call.
func (f *fixture) awaitRound(server string) {
	for range 2 {
		before := f.measured(server)
		testdrive.Eventually(f, "all is measured", func() bool { return f.measured(server).After(before) })
	}
}

// measured is when a shared server, or all dedicated ones (""), were last measured.
func (f *fixture) measured(server string) time.Time {
	all, err := f.Store.Usage.Measurements(f.Context())
	f.Must(err)
	return all[server]
}

func (f *fixture) awaitLog(message string) {
	testdrive.Eventually(f, "the log says "+message, func() bool { return f.logged(message) })
}

// expectRefused fails the test unless an account that may write otherwise can only read and remove. It removes nothing,
// so that what is measured stays the same.
func (f *fixture) expectRefused(a account) {
	f.Helper()
	for _, statement := range []string{testdrive.InsertOne, "CREATE TABLE more (id INT)"} {
		assert.EqualValues(f, testdrive.Denied, testdrive.RefusalOf(f.T, a.DB, statement), statement)
	}
	testdrive.Exec(f.T, a.DB, "SELECT COUNT(*) FROM filler", "DELETE FROM filler WHERE id < 0")
}

// expectWrites fails the test unless an account can add data, once it has connected again.
func (f *fixture) expectWrites(a account) {
	testdrive.AwaitAllowed(f.T, a.DB)
	testdrive.Exec(f.T, a.DB, "CREATE TABLE more (id INT)", "DROP TABLE more")
}

func (f *fixture) logged(message string) bool { return f.log.Count(message) > 0 }
