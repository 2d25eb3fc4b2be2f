package doctor_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base32"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/google/uuid"

	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/provisioner"
	"mysql-broker/provisioner/bindings"
	"mysql-broker/provisioner/doctor"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestMain(m *testing.M) { servers.Main(m) }

const sharedName = "shared-1"

var (
	sharedPlan = plan.Plan{ID: "shared", ServiceID: "mysql", Kind: plan.Shared,
		Async: plan.AsyncNever, MaxStorageMB: 100, MaxConnections: 7, MaxBindings: 10}
	dedicatedPlan = plan.Plan{ID: "dedicated", ServiceID: "mysql", Kind: plan.Dedicated,
		Async: plan.AsyncPreferred, MaxStorageMB: 256, MemoryMB: 256, MaxConnections: 7, MaxBindings: 10,
		Events: true}
)

// fixture is a broker without its HTTP side, and its doctor. Other tests use the same shared server.
type fixture struct {
	*testing.T
	config      config.Config
	store       *store.Store
	launcher    launcher.Stopper
	launcherDir string
	fleet       *fleet.Fleet // with the shared server that is configured
	broker      *provisioner.Provisioner
	doctor      *doctor.Doctor
	root        *sql.DB
}

func eachServer(t *testing.T, test func(f *fixture)) {
	t.Helper()
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) { test(newFixture(t, s)) })
}

func newFixture(t *testing.T, s servers.MySQL) *fixture {
	t.Helper()
	env := testdrive.Environment(t, s)
	f := &fixture{T: t}
	var err error
	f.config, err = config.FromEnvironment(func(name string) string { return env[name] })
	f.must(err)
	f.store, err = store.Open(t.Context(), f.config.PostgresURL, f.config.Keys)
	f.must(err)
	t.Cleanup(f.store.Close)
	dedicated, err := f.config.Launchers[0].Open(launcher.Options{})
	f.must(err)
	f.launcher, f.launcherDir = dedicated.(launcher.Stopper), env["LAUNCHER_DIR"]
	f.fleet = f.fleetOf(f.openShared(f.config.Shared...))
	f.broker = provisioner.New(provisioner.Config{Store: f.store, Plans: plans(), Fleet: f.fleet,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	t.Cleanup(f.broker.Stop)
	f.doctor = f.doctorOf(f.fleet.Shared)
	f.root = f.login(s.User, s.Password, "")
	t.Cleanup(f.removeAll)
	return f
}

func plans() []plan.Plan { return []plan.Plan{sharedPlan, dedicatedPlan} }

func (f *fixture) openShared(configs ...shared.Config) *shared.Servers {
	f.Helper()
	key, err := f.store.SessionLockKey(f.Context())
	f.must(err)
	all, err := shared.Open(configs, key)
	f.must(err)
	f.Cleanup(func() { f.must(all.Close()) })
	return all
}

// fleetOf returns a fleet with these shared servers and the launcher of the fixture.
func (f *fixture) fleetOf(s *shared.Servers) *fleet.Fleet {
	f.Helper()
	key, err := f.store.SessionLockKey(f.Context())
	f.must(err)
	return fleet.New(fleet.Config{Store: f.store, Shared: s, SessionLockKey: key,
		Launchers: map[string]launcher.Launcher{"process": f.launcher}})
}

func (f *fixture) doctorOf(s *shared.Servers) *doctor.Doctor {
	return doctor.New(doctor.Config{Store: f.store, Plans: plans(), Fleet: f.fleetOf(s)})
}

// removeAll removes everything that the test has recorded from the shared server.
func (f *fixture) removeAll() {
	ctx := context.Background()
	f.must(f.store.EachResource(ctx, sharedName, func(some []store.Resource) (err error) {
		for _, r := range some {
			switch r.Kind {
			case store.DatabaseResource:
				_, err = f.root.ExecContext(ctx, "DROP DATABASE IF EXISTS `"+r.Name+"`")
			case store.AccountResource:
				_, err = f.root.ExecContext(ctx, "DROP USER IF EXISTS `"+r.Name+"`@'%'")
			}
			f.must(err)
		}
		return nil
	}))
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) exec(statements ...string) {
	f.Helper()
	for _, statement := range statements {
		if _, err := f.root.ExecContext(f.Context(), statement); err != nil {
			f.Fatalf("%s: %v", statement, err)
		}
	}
}

// exists reports whether a query on the shared server has a row.
func (f *fixture) exists(query string, args ...any) (found bool) {
	f.Helper()
	f.must(f.root.QueryRowContext(f.Context(), "SELECT EXISTS ("+query+")", args...).Scan(&found))
	return found
}

func (f *fixture) databaseExists(name string) bool {
	f.Helper()
	return f.exists("SELECT 1 FROM information_schema.schemata WHERE schema_name = ?", name)
}

func (f *fixture) accountExists(name string) bool {
	f.Helper()
	return f.exists("SELECT 1 FROM mysql.user WHERE user = ?", name)
}

// login prepares connections as an application would have them.
func (f *fixture) login(user, password, database string) *sql.DB {
	f.Helper()
	c := mysql.NewConfig()
	server := f.config.Shared[0]
	c.Net, c.Addr, c.User, c.Passwd = "tcp", net.JoinHostPort(server.Host, strconv.Itoa(server.Port)), user, password
	c.DBName, c.TLSConfig, c.Logger = database, "skip-verify", &mysql.NopLogger{}
	connector, err := mysql.NewConnector(c)
	f.must(err)
	db := sql.OpenDB(connector)
	f.Cleanup(func() { db.Close() })
	return db
}

// provision makes an instance and returns it as it is recorded.
func (f *fixture) provision(of plan.Plan) store.Instance {
	f.Helper()
	id := uuid.NewString()
	_, err := f.broker.Provision(f.Context(), engine.ProvisionRequest{InstanceID: id, Plan: of})
	f.must(err)
	i, err := f.store.Instance(f.Context(), id)
	f.must(err)
	return i
}

func (f *fixture) bind(i store.Instance, role plan.Role) store.Binding {
	f.Helper()
	return f.bindWith(i, plan.BindingParameters{Role: role})
}

func (f *fixture) bindWith(i store.Instance, parameters plan.BindingParameters) store.Binding {
	f.Helper()
	id := uuid.NewString()
	_, _, err := f.broker.Bind(f.Context(), bindings.BindRequest{InstanceID: i.ID, BindingID: id,
		ServiceID: i.ServiceID, Parameters: parameters})
	f.must(err)
	b, err := f.store.Binding(f.Context(), i.ID, id)
	f.must(err)
	return b
}

func (f *fixture) inTx(fn func(tx *store.Tx) error) {
	f.Helper()
	f.must(f.store.InTx(f.Context(), fn))
}

// forgetInstance deletes the record of an instance, which no operation does.
func (f *fixture) forgetInstance(i store.Instance) {
	f.Helper()
	f.inTx(func(tx *store.Tx) error { tx.DeleteInstance(i.ID); return nil })
}

// find examines, and leaves out what belongs to other tests, of which this store has no record.
func (f *fixture) find(d *doctor.Doctor) []doctor.Finding {
	f.Helper()
	r, err := d.Examine(f.Context())
	f.must(err)
	return slices.DeleteFunc(r.Findings, func(f doctor.Finding) bool { return f.Problem == doctor.Unrecorded })
}

// expect expects these findings, each as "problem kind name", and returns them in that order.
func (f *fixture) expect(d *doctor.Doctor, want ...string) []doctor.Finding {
	f.Helper()
	found := f.find(d)
	var got []string
	for _, finding := range found {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s", finding.Problem, finding.Kind, finding.Name)))
	}
	if !slices.Equal(got, want) {
		f.Fatalf("found %q instead of %q", got, want)
	}
	return found
}

// repair fails the test unless it succeeds.
func (f *fixture) repair(finding doctor.Finding, want string) {
	f.Helper()
	if done, err := f.doctor.Repair(f.Context(), finding); err != nil || done != want {
		f.Fatalf("repair of %+v: %q, %v", finding, done, err)
	}
}

// refuses fails the test if a finding is repaired.
func (f *fixture) refuses(finding doctor.Finding) {
	f.Helper()
	if done, err := f.doctor.Repair(f.Context(), finding); err == nil {
		f.Errorf("repair of %+v: %q", finding, done)
	}
}

// foreign is a name like those that the broker gives.
func foreign(prefix string) string {
	var b [13]byte
	rand.Read(b[:])
	return prefix + strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))[:20]
}
