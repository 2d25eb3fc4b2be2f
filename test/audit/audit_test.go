package audit_test

import (
	"database/sql"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/plan"
	"mysql-broker/test/audit"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestMain(m *testing.M) { servers.Main(m) }

// bench is a consistent world, in which tests plant discrepancies.
type bench struct {
	audit.World
	platform testdrive.Platform
	shared   testdrive.Instance
	postgres testdrive.Tasks
	dataDir  string // of the dedicated instance

	launcherDir string
}

// An audit that cannot fail proves nothing: each kind of discrepancy is planted and must be reported; after its
// removal, nothing is reported.
func TestEveryDiscrepancyIsReported(t *testing.T) {
	t.Parallel()
	servers.EachOrAny(t, func(t *testing.T, s servers.MySQL) {
		b := newBench(t, s.Flavour)
		b.expectNothing(t, "a world in order")
		b.plant(t, slices.Concat(b.lies(t), b.inPostgres(t), b.onTheServer(t), b.atTheLauncher(t), b.inTheStore()))
		b.move(t)
		b.expectNothing(t, "after data was moved")
		b.plant(t, b.afterMove(t))

		// The dedicated server is killed, and no broker restarts it.
		b.platform.Kill(t)
		testdrive.SignalMysqlds(t, b.launcherDir, syscall.SIGKILL)
		testdrive.Eventually(t, "the server ends", func() bool { return len(testdrive.Mysqlds(t, b.launcherDir)) == 0 })
		found := strings.Join(audit.Check(t.Context(), b.World), "\n")
		for _, reported := range []string{"has 0 processes", "Missing: with the credentials", "nothing can be read"} {
			assert.Contains(t, found, reported, "without its server")
		}
	})
}

// plant plants each discrepancy and expects it to be reported.
func (b *bench) plant(t *testing.T, all []discrepancy) {
	for _, d := range all {
		d.plant(t)
		assert.Contains(t, strings.Join(audit.Check(t.Context(), b.World), "\n"), d.reported, d.name)
		d.undo(t)
		b.expectNothing(t, "after "+d.name+" was undone")
	}
}

// move moves the shared instance to a server of its own.
func (b *bench) move(t *testing.T) {
	b.shared.Await(t, b.shared.UpdatePlan(t, testdrive.Async, "dedicated-small").Operation(t))
	_, b.Reported.Instances[0].PlanID = testdrive.Plan(t, "dedicated-small")
	moved := &b.Reported.Bindings[0]
	fetched := testdrive.Binding{Instance: b.shared, BindingID: moved.ID}.Fetch(t).Expect(t, http.StatusOK)
	var err error
	moved.Former = moved.Credentials
	moved.Credentials, err = audit.ReadCredentials(fetched.Body["credentials"])
	require.NoError(t, err)
}

// afterMove are discrepancies of an instance whose data was moved.
func (b *bench) afterMove(t *testing.T) []discrepancy {
	former := b.Reported.Bindings[0].Former
	account := "'" + former.Username + "'@'%'"
	inPostgres := b.recording
	var truth audit.Credentials
	return []discrepancy{
		{"an account that writes where the data was", "where the data was before, the account",
			b.executing("GRANT INSERT ON " + b.pattern() + ".* TO " + account),
			b.executing("REVOKE INSERT ON " + b.pattern() + ".* FROM " + account)},
		{"a former place that is lost", "Missing: on the shared server, database", inPostgres(
			"UPDATE instance SET database_name = 'x' || database_name WHERE moved_at IS NOT NULL"), inPostgres(
			"UPDATE instance SET database_name = substr(database_name, 2) WHERE moved_at IS NOT NULL")},
		{"data that is to be moved by nobody", "is recorded to be moved", inPostgres(
			"UPDATE instance SET moved_at = NULL, updated_at = moved_at WHERE moved_at IS NOT NULL"), inPostgres(
			"UPDATE instance SET moved_at = updated_at WHERE next_server IS NOT NULL")},
		{"a retired account at neither place", "at both places", inPostgres(
			"INSERT INTO retired_account SELECT 'u_retired', id FROM instance WHERE moved_at IS NOT NULL"), inPostgres(
			"DELETE FROM retired_account WHERE account = 'u_retired'")},
		{"former credentials that do not work", "Missing: with the former credentials",
			func(*testing.T) { truth, b.Reported.Bindings[0].Former.Password = former, "another" },
			func(*testing.T) { b.Reported.Bindings[0].Former = truth }},
		{"a former account that is open although its password was replaced", "whose password was replaced", inPostgres(
			"INSERT INTO task (instance_id, binding_id, kind, plan_id, state, finished_at) SELECT b.instance_id, b.id, 'rotate', " +
				"i.plan_id, 'succeeded', now() FROM binding b JOIN instance i ON i.id = b.instance_id WHERE b.created_at < i.moved_at"),
			inPostgres("DELETE FROM task WHERE kind = 'rotate'")},
	}
}

type discrepancy struct {
	name     string
	reported string // part of the sentence
	plant    func(*testing.T)
	undo     func(*testing.T)
}

func (b *bench) expectNothing(t *testing.T, when string) {
	require.Empty(t, audit.Check(t.Context(), b.World), when)
}

// newBench makes a shared instance with two bindings, the second of which has ended, and a dedicated instance with one.
func newBench(t *testing.T, flavour string) *bench {
	private := testdrive.Private(t, flavour)
	env := testdrive.Environment(t, private)
	testdrive.OwnTemplates(t, env)
	env["BACKUP_STORE"] = "file://" + t.TempDir()
	env["QUOTA_INTERVAL"] = "1h" // quotas would repair the discrepancy
	b := &bench{platform: testdrive.Platform{Broker: testdrive.Start(t, env)}, launcherDir: env["LAUNCHER_DIR"]}
	b.World = testdrive.AuditOf(t, env, private.Admin(t))
	b.postgres = testdrive.OpenTasks(t, env)
	b.shared = b.provision(t, "shared-small")
	b.provision(t, "dedicated-small")
	ended := b.bind(t, b.shared)
	testdrive.Binding{Instance: b.shared, BindingID: ended.ID}.Unbind(t).Expect(t, http.StatusOK)
	b.Reported.Bindings[len(b.Reported.Bindings)-1].State = audit.Gone
	dirs, err := filepath.Glob(filepath.Join(b.launcherDir, "instances", "*"))
	require.True(t, err == nil && len(dirs) == 1, "directories of the dedicated server: %v, %v", dirs, err)
	b.dataDir = dirs[0]
	return b
}

func (b *bench) provision(t *testing.T, plan string) testdrive.Instance {
	i := b.platform.MakeOwn(t, plan)
	b.Reported.Instances = append(b.Reported.Instances, audit.Instance{ID: i.ID, PlanID: i.PlanID, State: audit.Exists, Note: plan})
	require.NoError(t, audit.Write(t.Context(), b.bind(t, i).Credentials, plan))
	return i
}

func (b *bench) bind(t *testing.T, i testdrive.Instance) audit.Binding {
	bound := i.NewBinding()
	c, err := audit.ReadCredentials(bound.Bind(t, nil).Expect(t, http.StatusCreated).Body["credentials"])
	require.NoError(t, err)
	made := audit.Binding{InstanceID: i.ID, ID: bound.BindingID, State: audit.Exists, Credentials: c}
	b.Reported.Bindings = append(b.Reported.Bindings, made)
	return made
}

// lies are discrepancies in what the broker has reported.
func (b *bench) lies(*testing.T) []discrepancy {
	lie := func(name, reported string, change func(*audit.Reported)) discrepancy {
		var truth audit.Reported
		return discrepancy{name, reported,
			func(*testing.T) {
				truth = audit.Reported{Instances: slices.Clone(b.Reported.Instances), Bindings: slices.Clone(b.Reported.Bindings)}
				change(&b.Reported)
			},
			func(*testing.T) { b.Reported = truth }}
	}
	return []discrepancy{
		lie("an instance that was lost", "Missing: instance", func(reported *audit.Reported) {
			reported.Instances = append(reported.Instances, audit.Instance{ID: "lost", State: audit.Exists})
		}),
		lie("an instance that nobody knows", "Orphan: instance",
			func(reported *audit.Reported) { reported.Instances[0].State = audit.Gone }),
		lie("a failed instance that is there", "to the platform it failed",
			func(reported *audit.Reported) { reported.Instances[1].State = audit.Failed }),
		lie("another plan", "recorded with plan", func(reported *audit.Reported) { reported.Instances[0].PlanID = "another" }),
		lie("a binding that was lost", "Missing: binding", func(reported *audit.Reported) {
			reported.Bindings = append(reported.Bindings, audit.Binding{ID: "lost", State: audit.Exists})
		}),
		lie("a binding that nobody knows", "Orphan: binding",
			func(reported *audit.Reported) { reported.Bindings[0].State = audit.Gone }),
		lie("an ended login that works", "still logs in", func(reported *audit.Reported) { reported.Bindings[0].State = audit.Gone }),
		lie("a login that does not work", "Missing: with the credentials",
			func(reported *audit.Reported) { reported.Bindings[0].Credentials.Password = "another" }),
		b.flip("an account without EVENT though its plan has events", "(events: true", "shared-small"),
		b.flip("an account of a dedicated server with EVENT though its plan has no events", "(events: false",
			"dedicated-small"),
		lie("data that was lost", "the note is", func(reported *audit.Reported) { reported.Instances[1].Note = "another" }),
	}
}

// flip plants a discrepancy: a plan of the catalog gets events if it had none, and loses them if it had them.
func (b *bench) flip(name, reported, planName string) discrepancy {
	at := slices.IndexFunc(b.Plans, func(p plan.Plan) bool { return p.Name == planName })
	flip := func(*testing.T) { b.Plans[at].Events = !b.Plans[at].Events }
	return discrepancy{name, reported, flip, flip}
}

// inPostgres are discrepancies in the records.
func (b *bench) inPostgres(*testing.T) []discrepancy {
	run := b.recording
	return []discrepancy{
		{"a task in progress", "still in progress",
			run("INSERT INTO task (instance_id, kind, plan_id, run_at) VALUES ('i', 'update', 'p', now() + interval '1 h')"),
			run("DELETE FROM task WHERE instance_id = 'i'")},
		{"a wrong counter", "is recorded to have 7 instances",
			run("UPDATE server SET instances = 7"), run("UPDATE server SET instances = 1")},
		{"an instance half-way", "is recorded as creating",
			run("UPDATE instance SET state = 'creating' WHERE dedicated_id <> ''"), run("UPDATE instance SET state = 'ready'")},
		{"an account that may add data though its instance is over its quota", "over its quota: true)",
			run("UPDATE instance SET over_since = now() WHERE server <> ''"), run("UPDATE instance SET over_since = NULL")},
		{"a binding half-way", "is recorded as ending",
			run("UPDATE binding SET state = 'ending'"), run("UPDATE binding SET state = 'ready'")},
		{"a database of another name", "Missing: on the shared server, database",
			run("UPDATE instance SET database_name = 'x' || database_name WHERE server <> ''"),
			run("UPDATE instance SET database_name = substr(database_name, 2) WHERE server <> ''")},
		{"a database of another name on a dedicated server", "Orphan: on the dedicated server",
			run("UPDATE instance SET database_name = 'x' || database_name WHERE dedicated_id <> ''"),
			run("UPDATE instance SET database_name = substr(database_name, 2) WHERE dedicated_id <> ''")},
		{"an account of another name", "Missing: on the shared server, account",
			run("UPDATE binding SET account = 'x' || account"), run("UPDATE binding SET account = substr(account, 2)")},
		{"a retired account that is missing", "Missing: on the shared server, account u_retired",
			run("INSERT INTO retired_account SELECT 'u_retired', id FROM instance WHERE server <> ''"),
			run("DELETE FROM retired_account")},
		{"a server that is missing", "Missing: directory of a dedicated server",
			run("UPDATE instance SET dedicated_id = 'x' || dedicated_id WHERE dedicated_id <> ''"),
			run("UPDATE instance SET dedicated_id = substr(dedicated_id, 2) WHERE dedicated_id <> ''")},
	}
}

// onTheServer are discrepancies on the shared MySQL server.
func (b *bench) onTheServer(*testing.T) []discrepancy {
	run := b.executing
	account := "'" + b.Reported.Bindings[0].Credentials.Username + "'@'%'"
	var session *sql.DB
	return []discrepancy{
		{"a database", "Orphan: on the shared server, database db_orphan",
			run("CREATE DATABASE db_orphan"), run("DROP DATABASE db_orphan")},
		{"an account", "Orphan: on the shared server, account u_orphan",
			run("CREATE USER u_orphan"), run("DROP USER u_orphan")},
		{"a locked account", "is locked", run("ALTER USER " + account + " ACCOUNT LOCK"),
			run("ALTER USER " + account + " ACCOUNT UNLOCK")},
		{"another limit", "may have 11 connections", run("ALTER USER " + account + " WITH MAX_USER_CONNECTIONS 11"),
			run("ALTER USER " + account + " WITH MAX_USER_CONNECTIONS 30")},
		{"a global privilege", "outside its database", run("GRANT PROCESS ON *.* TO " + account),
			run("REVOKE PROCESS ON *.* FROM " + account)},
		{"EVENT where the plan has no events", "(events: false", run("GRANT EVENT ON " + b.pattern() + ".* TO " + account),
			run("REVOKE EVENT ON " + b.pattern() + ".* FROM " + account)},
		{"a privilege elsewhere", "on other databases", run("GRANT SELECT ON other.* TO " + account),
			run("REVOKE SELECT ON other.* FROM " + account)},
		{"a grant option", "grantable", run("GRANT SELECT ON " + b.pattern() + ".* TO " + account + " WITH GRANT OPTION"),
			run("REVOKE GRANT OPTION ON " + b.pattern() + ".* FROM " + account)},
		{"a session of nobody", "Orphan: on the shared server, session of u_gone", func(t *testing.T) {
			run("CREATE USER u_gone IDENTIFIED BY 'a-test-password'")(t)
			c := b.Reported.Bindings[0].Credentials
			c.Username, c.Password, c.Database = "u_gone", "a-test-password", ""
			var err error
			session, err = c.Open()
			require.NoError(t, err)
			require.NoError(t, session.PingContext(t.Context()))
			run("DROP USER u_gone")(t)
		}, func(t *testing.T) {
			session.Close()
			testdrive.Eventually(t, "the session ends", func() bool { return len(audit.Check(t.Context(), b.World)) == 0 })
		}},
		{"a retired account that is not locked", "is not locked", func(t *testing.T) {
			run("CREATE USER u_retired")(t)
			b.recording("INSERT INTO retired_account SELECT 'u_retired', id FROM instance WHERE server <> ''")(t)
		}, func(t *testing.T) {
			run("DROP USER u_retired")(t)
			b.recording("DELETE FROM retired_account")(t)
		}},
	}
}

// executing executes a statement on the shared server.
func (b *bench) executing(statement string) func(*testing.T) {
	return func(t *testing.T) { testdrive.Exec(t, b.Shared, statement) }
}

// recording executes a statement in PostgreSQL.
func (b *bench) recording(statement string) func(*testing.T) {
	return func(t *testing.T) { b.postgres.Exec(t, statement) }
}

// pattern is the shared database as GRANT names it.
func (b *bench) pattern() string {
	return "`" + strings.ReplaceAll(b.Reported.Bindings[0].Credentials.Database, "_", `\_`) + "`"
}

// atTheLauncher are discrepancies among the dedicated servers.
func (b *bench) atTheLauncher(*testing.T) []discrepancy {
	file := func(name, reported string, path ...string) discrepancy {
		full := filepath.Join(append([]string{b.launcherDir}, path...)...)
		return discrepancy{name, reported,
			func(t *testing.T) { require.NoError(t, os.Mkdir(full, 0o755)) },
			func(t *testing.T) { require.NoError(t, os.Remove(full)) }}
	}
	var stray *exec.Cmd
	state, kept := filepath.Join(b.dataDir, "state.json"), filepath.Join(b.dataDir, "kept")
	move := func(from, to string) func(*testing.T) {
		return func(t *testing.T) { require.NoError(t, os.Rename(from, to)) }
	}
	var recorded []byte
	return []discrepancy{
		file("a directory", "Orphan: directory of a dedicated server d_orphan", "instances", "d_orphan"),
		file("trash", "Orphan: d_orphan in the launcher's trash", "trash", "d_orphan"),
		file("an unfinished template", "among the launcher's templates", "templates", "x.unfinished"),
		file("a stray file", "Orphan: init.sql", "instances", filepath.Base(b.dataDir), "init.sql"),
		{"a server that a cleanup may destroy", "is not recorded to be kept", move(kept, kept+".moved"),
			move(kept+".moved", kept)},
		{"a stray process", "Orphan: process", func(t *testing.T) {
			stray = exec.Command("tail", "-F", b.launcherDir+"/nothing")
			require.NoError(t, stray.Start())
		}, func(t *testing.T) {
			require.NoError(t, stray.Process.Kill())
			stray.Wait()
		}},
		{"another port", "listens on", func(t *testing.T) {
			var err error
			recorded, err = os.ReadFile(state)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(state, []byte(`{"phase": "ready", "port": 1}`), 0o600))
		}, func(t *testing.T) { require.NoError(t, os.WriteFile(state, recorded, 0o600)) }},
	}
}

// inTheStore are discrepancies among the backups.
func (b *bench) inTheStore() []discrepancy {
	write := func(names ...string) func(*testing.T) {
		return func(t *testing.T) {
			for _, name := range names {
				require.NoError(t, b.Objects.Put(t.Context(), name, []byte("x")))
			}
		}
	}
	remove := func(names ...string) func(*testing.T) {
		return func(t *testing.T) {
			for _, name := range names {
				require.NoError(t, b.Objects.Delete(t.Context(), name))
			}
		}
	}
	record := func(state, takenAt string) func(*testing.T) {
		return b.recording("INSERT INTO backup (id, instance_id, service_id, plan_id, reason, state, taken_at, keep_until) " +
			"VALUES ('b', 'i', 's', 'p', 'request', '" + state + "', " + takenAt + ", now() + interval '1 d')")
	}
	forget := b.recording("DELETE FROM backup")
	return []discrepancy{
		{"a part of a backup", "in the object store, i/b has no manifest", write("i/b/00000000"), remove("i/b/00000000")},
		{"a backup of nobody", "Orphan: in the object store, backup i/b", write("i/b/00000000", "i/b/manifest.json"),
			remove("i/b/00000000", "i/b/manifest.json")},
		{"a backup that is lost", "Missing: in the object store, backup i/b", record("complete", "now()"), forget},
		{"a backup that is not complete", "of instance \"i\" is recorded as in progress", record("in progress", "NULL"), forget},
	}
}
