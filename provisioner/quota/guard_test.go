package quota_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/bindings"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/quota"
	"mysql-broker/store"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestOverQuota(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		f := newFixture(t, s)
		i := f.Provision(small)
		writer, admin, reader := f.bind(i, plan.ReadWrite), f.bind(i, plan.Admin), f.bind(i, plan.ReadOnly)
		retired := f.bind(i, plan.ReadWrite)
		testdrive.Fill(f.T, writer.DB, 0)
		testdrive.Exec(t, retired.DB, "CREATE PROCEDURE grow () INSERT INTO filler (content) VALUES ('z')",
			"CREATE PROCEDURE shrink () DELETE FROM filler WHERE id < 0")
		f.Must(f.Broker.Unbind(t.Context(), bindings.UnbindRequest{InstanceID: i.ID, BindingID: retired.id}))
		g := f.guard()
		f.fill(i, quotaMB-5) // of which 80 per cent are less, and to which InnoDB adds up to 4 MiB of free space
		f.awaitLog("a service instance uses much of its quota")
		f.awaitOver(i, false)
		testdrive.Exec(t, writer.DB, testdrive.InsertOne)
		writing, err := writer.Conn(t.Context())
		f.Must(err)
		reading, err := reader.Conn(t.Context())
		f.Must(err)

		f.fill(i, 8)
		f.awaitOver(i, true)
		f.awaitLog("a service instance is over its quota")
		for _, a := range []account{writer, admin} {
			testdrive.Eventually(t, "the account connects again", func() bool { return a.Ping() == nil })
			f.expectRefused(a)
			testdrive.Exec(t, a.DB, "CALL shrink()")
			assert.EqualValues(t, testdrive.Denied, testdrive.RefusalOf(t, a.DB, "CALL grow()"),
				"a procedure of a retired account: error")
		}
		_, err = writing.ExecContext(t.Context(), testdrive.InsertOne)
		assert.False(t, err == nil || errors.As(err, new(*mysql.MySQLError)),
			"a session that was open: %v, want it ended", err)
		_, err = reading.ExecContext(t.Context(), "SELECT COUNT(*) FROM filler")
		assert.NoError(t, err, "an open session of a read-only account")

		f.awaitRound("shared-1") // the quota may have been noticed before all data was there
		g.Close()                // it would restrict new bindings in its next round
		for _, role := range []plan.Role{plan.ReadWrite, plan.Admin} {
			made := f.bind(i, role)
			f.expectRefused(made)
			f.expectRefused(f.bindAs(i, made.id, role))
		}

		// The data stays the same, and the quota is such that it is just below it, and then below the restoring mark.
		usage, err := f.Store.Usage.Get(t.Context(), i.ID)
		f.Must(err)
		g = f.guard(planLike(small, small.ID, int(usage.Bytes>>20)+1))
		f.awaitRound("shared-1")
		f.expectRefused(writer)
		g.Close()
		f.guard(planLike(small, small.ID, int(usage.Bytes*100/85>>20)))
		f.awaitOver(i, false)
		f.awaitLog("a service instance is below its quota again")
		f.expectWrites(writer)
		f.expectWrites(admin)
		testdrive.Exec(t, writer.DB, "CALL grow()")
		assert.EqualValues(t, testdrive.Denied, testdrive.RefusalOf(t, reader.DB, testdrive.InsertOne),
			"a read-only account can write: error")
	})
}

// What deletes data makes room, in the same files too. Who has dropped the database can make it again.
func TestRoomIsMade(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		f := newFixture(t, s)
		i := f.Provision(small)
		a := f.bind(i, plan.Admin)
		testdrive.Fill(f.T, a.DB, 0)
		g := f.guard()
		for _, statement := range []string{"DELETE FROM filler WHERE id > 3", "TRUNCATE filler"} {
			f.fill(i, quotaMB+4)
			f.awaitOver(i, true)
			testdrive.Exec(t, f.bind(i, plan.ReadWrite).DB, statement)
			f.awaitOver(i, false)
			f.expectWrites(a)
		}

		f.fill(i, quotaMB+4)
		f.awaitOver(i, true)
		g.Close() // it might see the database half dropped
		testdrive.Exec(t, f.bind(i, plan.Admin).DB, "DROP DATABASE `"+i.Database+"`")
		f.guard()
		f.awaitOver(i, false)
		a.login.Database = ""
		testdrive.Exec(t, a.login.Open(t), "CREATE DATABASE `"+i.Database+"`")
		testdrive.Exec(t, f.bind(i, plan.Admin).DB, "CREATE TABLE made (id INT)")
	})
}

// A scan of the tablespaces takes a server as long as it has tables. The one of each round is enough for all instances
// near or over their quotas, until one is to lose or get back its write privileges.
func TestInstancesNearTheirQuotasShareOneScan(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testdrive.Private(t, servers.Any(t).Flavour))
	const near = 2
	for range near {
		i := f.Provision(small)
		testdrive.Fill(t, f.bind(i, plan.ReadWrite).DB, 0)
		f.fill(i, quotaMB-5)
	}
	i, _ := f.filled()
	f.guard()
	f.awaitOver(i, true)
	testdrive.Eventually(t, "the others are near their quotas", func() bool {
		return f.log.Count("a service instance uses much of its quota") == near
	})
	f.awaitRound("shared-1")
	testdrive.Exec(t, f.Root, "SET GLOBAL log_output = 'TABLE'", "SET GLOBAL general_log = ON")
	f.awaitRound("shared-1")
	testdrive.Exec(t, f.Root, "SET GLOBAL general_log = OFF")
	const scans = "FROM mysql.general_log WHERE argument REGEXP 'FROM information_schema.INNODB_(SYS_)?TABLESPACES[[:space:]]'"
	assert.Equal(t, "SELECT NAME, FILE_SIZE", testdrive.Read[string](t, f.Root,
		"SELECT GROUP_CONCAT(DISTINCT SUBSTRING_INDEX(argument, ' FROM', 1)) "+scans), "what scans read")
}

// Stored programs are in no table's file, but count towards the quota. Who has filled it with them can create no more,
// and may write again after removing them.
func TestPrograms(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	f := newFixture(t, testdrive.Private(t, s.Flavour))
	i := f.Provision(small)
	a := f.bind(i, plan.ReadWrite)
	testdrive.Fill(f.T, a.DB, 0)
	testdrive.Exec(t, a.DB, "CREATE TRIGGER tr BEFORE DELETE ON filler FOR EACH ROW SET @x = 1")
	const programs, programMB = 6, 3 // each counts twice, and is smaller than max_allowed_packet
	text := strings.Repeat("x", programMB<<20)
	for n := range programs {
		testdrive.Exec(t, a.DB, fmt.Sprintf("CREATE PROCEDURE p%d() SELECT '%s'", n, text))
	}
	f.guard()
	f.awaitOver(i, true)
	a = f.bind(i, plan.ReadWrite)
	f.expectRefused(a)
	assert.EqualValues(t, testdrive.DeniedInAll, testdrive.RefusalOf(t, a.DB, "CREATE PROCEDURE small() SELECT 1"),
		"another procedure: error")
	for _, statement := range []string{"DROP TRIGGER tr", "CREATE TRIGGER tr2 BEFORE INSERT ON filler FOR EACH ROW SET @x = 1"} {
		assert.EqualValues(t, testdrive.Denied, testdrive.RefusalOf(t, a.DB, statement), "%s: error", statement)
	}
	for n := range programs {
		testdrive.Exec(t, a.DB, fmt.Sprintf("DROP PROCEDURE p%d", n))
	}
	f.awaitOver(i, false)
	f.expectWrites(a)
}

// A larger plan lifts the restriction without a guard, unless the data nearly fill that one too. A plan that allows less
// than there is, is refused, also for a copy.
func TestLargerPlan(t *testing.T) {
	t.Parallel()
	f := newFixture(t, servers.Any(t))
	i, a := f.filled()
	g := f.guard()
	f.awaitOver(i, true)
	g.Close()
	f.update(i, same)
	f.expectRefused(f.bind(i, plan.ReadWrite))
	f.update(i, large)
	f.awaitOver(i, false)
	f.expectWrites(a)
	_, err := f.Broker.Update(t.Context(), engine.UpdateRequest{InstanceID: i.ID, ServiceID: i.ServiceID, Plan: small})
	refused, _ := errors.AsType[*engine.Error](err)
	require.True(t, refused != nil && refused.Code == engine.TooMuchData, "%v", err)
	assert.Contains(t, refused.Sentence, "plan small allows 32 MiB")
	assert.Equal(t, large.ID, f.Instance(i.ID).PlanID)
	_, err = f.Broker.Provision(t.Context(), engine.ProvisionRequest{InstanceID: "copy", Plan: small, AcceptsIncomplete: true,
		Parameters: plan.InstanceParameters{CloneFrom: i.ID}})
	assert.ErrorContains(t, err, "plan small allows 32 MiB. Delete data, or choose a larger plan.")
	testdrive.Exec(t, a.DB, "DROP TABLE filler")
	f.update(i, small)
}

// The guard changes no privileges while an operation is in progress, and does so afterwards. One that is switched off
// gives them back.
func TestBusyInstance(t *testing.T) {
	t.Parallel()
	f := newFixture(t, servers.Any(t))
	i, a := f.filled()
	finish := f.begin(i)
	g := f.guard()
	testdrive.Eventually(t, "it is recorded", func() bool { return f.Instance(i.ID).OverSince != nil })
	f.awaitRound("shared-1")
	testdrive.Exec(t, a.DB, testdrive.InsertOne)
	assert.Equal(t, 1, f.due(i), "accounts that are due")
	assert.False(t, f.logged("could not change the privileges"))
	finish()
	f.awaitOver(i, true)
	g.Close()
	f.guardEvery(0)
	f.awaitOver(i, false)
	f.expectWrites(a)
}

// begin records an update of another broker, which is in progress until finish is called.
func (f *fixture) begin(i store.Instance) (finish func()) {
	var task *store.Task
	f.InTx(func(tx *store.Tx) error {
		_, err := tx.LockInstance(f.Context(), i.ID)
		task = tx.InsertTask(store.NewTask{InstanceID: i.ID, Kind: store.Update, PlanID: i.PlanID, Owner: "another",
			LeaseTTL: time.Hour})
		return err
	})
	return func() {
		f.InTx(func(tx *store.Tx) error { tx.CancelTask(task.ID, "It was cancelled."); return nil })
	}
}

// A server that does not respond keeps no other one from being measured. What is due there is done once it responds.
func TestUnreachableServers(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	proxy := testdrive.NewProxy(t, s.Address())
	through := s
	through.Port = proxy.Port()
	env := testdrive.Environment(t, s)
	env["MYSQL_SERVERS"] = testdrive.Encode(t, []any{testdrive.Described("shared-1", through), testdrive.DeadServer(t, "dead")})
	f := newFixtureIn(t, s, env)
	i, _ := f.filled()
	f.guard()
	f.awaitOver(i, true)
	f.awaitLog("server=dead")
	at := f.measured("dead")
	assert.True(t, at.IsZero(), "the server that does not respond was measured at %v", at)

	proxy.Refuse(true)
	proxy.Cut()
	f.InTx(func(tx *store.Tx) error { // accounts are due
		_, err := tx.LockInstance(t.Context(), i.ID)
		tx.MarkGrants(i.ID)
		return err
	})
	f.awaitLog("could not change the privileges of some accounts")
	assert.Equal(t, 1, f.due(i), "accounts that are due")
	proxy.Refuse(false)
	f.awaitOver(i, true)
	f.awaitRound("shared-1")
}

func TestDedicatedServers(t *testing.T) {
	t.Parallel()
	f := newFixture(t, servers.Any(t))
	i := f.Provision(dedicated)
	a := f.bind(i, plan.ReadWrite)
	testdrive.Fill(t, a.DB, quotaMB+4)
	g := f.guard()
	f.awaitOver(i, true)
	f.expectRefused(f.bind(i, plan.ReadWrite))
	testdrive.Exec(t, f.bind(i, plan.ReadWrite).DB, "DELETE FROM filler WHERE id > 3")
	f.awaitOver(i, false)
	f.expectWrites(a)

	signal := func(s syscall.Signal) { testdrive.SignalMysqlds(t, f.Env["LAUNCHER_DIR"], s) }
	signal(syscall.SIGSTOP)
	defer signal(syscall.SIGCONT)
	const warning = "measuring all databases of a server failed"
	f.awaitLog(warning)
	// A server that an operation may have stopped does not count as failed.
	hanging, finish := f.measured(store.DedicatedServers), f.begin(i)
	testdrive.Eventually(t, "all other servers count as measured", func() bool {
		return f.measured(store.DedicatedServers).After(hanging)
	})
	finish()
	signal(syscall.SIGCONT)
	f.awaitRound(store.DedicatedServers)
	f.awaitLog("measuring all databases of a server works again")
	g.Close()

	// After a restart of the host, a server that is still starting is nothing to warn of.
	let := testdrive.CrashDedicated(t, f.Env["LAUNCHER_DIR"], i.Location.Server)
	supervising, err := f.Config.Launchers[0].Open(launcher.Options{Supervise: true})
	f.Must(err)
	t.Cleanup(supervising.Close)
	testdrive.Eventually(t, "it is starting", func() bool { return supervising.Starting(i.Location.Server) })
	f.Launcher = supervising.(launcher.Stopper)
	f.Fleet = f.FleetOf(f.Fleet.Shared)
	warned := f.log.Count(warning)
	f.guard()
	f.awaitRound(store.DedicatedServers)
	assert.Equal(t, warned, f.log.Count(warning), "operators are warned of a server that is starting")
	let()
	testdrive.Eventually(t, "the server is back", func() bool { return a.DB.PingContext(t.Context()) == nil })
	testdrive.CrashDedicated(t, f.Env["LAUNCHER_DIR"], i.Location.Server)
	testdrive.Eventually(t, "operators are warned", func() bool { return f.log.Count(warning) > warned })
}

func TestLevel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		percent      int64
		before, want int
	}{
		{0, 0, 0}, {79, 0, 0}, {80, 0, 80}, {89, 80, 80}, {90, 80, 90}, {99, 90, 90}, {100, 90, 100}, {250, 0, 100},
		{99, 100, 100}, {95, 100, 100}, {94, 100, 90}, {84, 100, 80}, {74, 100, 0}, {0, 100, 0},
		{85, 90, 90}, {84, 90, 80}, {75, 80, 80}, {74, 80, 0}, {95, 90, 90}, {75, 0, 0},
	} {
		assert.Equal(t, c.want, quota.Level(c.percent, 100, c.before), "%d %% after level %d: level", c.percent, c.before)
	}
	assert.Equal(t, 90, quota.Level(100<<20-1, 100<<20, 90), "one byte less than the quota: level")
}

// Events run without connections, so limits of connections do not bound them. Only plans that say so have them. A change
// of plan grants or revokes EVENT, of kept accounts too, and so does the guard where a release before this one gave it.
func TestEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testdrive.Private(t, servers.Any(t).Flavour))
	i := f.Provision(small)
	definer, admin := f.bind(i, plan.ReadWrite), f.bind(i, plan.Admin)
	testdrive.Exec(t, definer.DB, "CREATE TABLE ticks (id INT AUTO_INCREMENT PRIMARY KEY)")
	const tick = "CREATE EVENT tick ON SCHEDULE EVERY 1 SECOND DO INSERT INTO ticks () VALUES ()"
	refused := func(a account) {
		db := a.login.Open(t)
		for _, statement := range []string{tick, "ALTER EVENT tick DISABLE", "DROP EVENT tick"} {
			assert.EqualValues(t, testdrive.DeniedInAll, testdrive.RefusalOf(t, db, statement), "%s: error", statement)
		}
	}
	may := func(a account) bool {
		return testdrive.Read[bool](t, f.Root, `SELECT EXISTS (SELECT 1 FROM information_schema.schema_privileges
			WHERE privilege_type = 'EVENT' AND grantee = CONCAT('\'', ?, '\'@\'%\''))`, a.login.Username)
	}
	refused(definer)
	refused(admin)

	f.update(i, eventful)
	testdrive.Exec(t, definer.login.Open(t), tick)
	testdrive.Exec(t, admin.login.Open(t), "CREATE EVENT other ON SCHEDULE EVERY 1 DAY DO DELETE FROM ticks", "DROP EVENT other")
	f.Must(f.Broker.Unbind(t.Context(), bindings.UnbindRequest{InstanceID: i.ID, BindingID: definer.id})) // the account stays
	seen := testdrive.Read[int](t, f.Root, "SELECT COUNT(*) FROM `"+i.Database+"`.ticks")
	testdrive.AwaitTrue(t, f.Root, "SELECT COUNT(*) > ? FROM `"+i.Database+"`.ticks", seen+1) // one may have been under way

	f.update(i, small)
	refused(admin)
	assert.False(t, may(definer) || may(admin), "an account may make events in a plan without")

	testdrive.Exec(t, f.Root, "GRANT EVENT ON `"+strings.ReplaceAll(i.Database, "_", `\_`)+"`.* TO "+admin.login.Username)
	testdrive.OpenTasks(t, f.Env).Exec(t, "UPDATE binding SET events = NULL")
	f.guard()
	testdrive.Eventually(t, "the privilege is taken", func() bool { return !may(admin) })
	refused(admin)
}
