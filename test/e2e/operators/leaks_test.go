package operators

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestNothingLeaks has a broker run and fail every operation, and searches for every password that was generated or
// configured, in all output and files of the broker and its servers. A canary, which the test itself puts into most of
// these places, has to be found.
func TestNothingLeaks(t *testing.T) {
	t.Parallel()
	server := servers.Any(t)
	env := testdrive.Environment(t, server)
	testdrive.OwnTemplates(t, env) // so that the programs that make one are watched too
	previous := rand.Text()
	env["LOG_LEVEL"], env["GOTRACEBACK"] = "debug", "system"
	env["BROKER_PASSWORD"], env["BROKER_PASSWORD_PREVIOUS"] = rand.Text(), previous
	// PostgreSQL logs every statement of new connections, with its parameters.
	testdrive.OpenTasks(t, env).Exec(t, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET log_statement = %L', current_database(), 'all'); END $$")
	canary := "canary-" + rand.Text()
	commands := watch(t, env["LAUNCHER_DIR"])
	process := osexec.CommandContext(t.Context(), "sleep", "600") // as one of the launcher's
	process.Args[0] = filepath.Join(env["LAUNCHER_DIR"], canary)
	require.NoError(t, process.Start())
	t.Cleanup(func() { process.Wait() })
	p := testdrive.StartPlatform(t, server, env)
	postgres, err := pgx.ParseConfig(env["DATABASE_URL"])
	require.True(t, err == nil && len(postgres.Password) >= 8,
		"PostgreSQL's password is too short to look for, or DATABASE_URL is no URL")
	p.Seen.Add(previous, postgres.Password)
	places := map[string]string{}

	haveItFail(t, p, canary)
	made := haveItWork(t, p, env, canary)
	authorities, _, err := openStore(t, env).Authorities.All(t.Context())
	require.True(t, err == nil && len(authorities) == 2, "%d CAs, %v", len(authorities), err)
	for _, a := range authorities {
		p.Seen.Add(strings.Split(a.Key, "\n")[2]) // of the PEM; much of the line before is the same in each key
	}
	ts := testdrive.OpenTasks(t, env)
	places["the table of tasks"] = dumpTables(t, ts, "task")
	places["the tables"] = dumpTables(t, ts, "binding", "instance", "retired_account", "secret", "server")
	failOnAWrongServer(t, p, env)

	mysqlds := testdrive.Mysqlds(t, env["LAUNCHER_DIR"])
	for _, pid := range append(mysqlds, p.PID()) {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
		assert.True(t, err == nil && noCores.Match(raw), "process %d may leave a core: %s %v", pid, raw, err)
	}
	require.NoError(t, syscall.Kill(mysqlds[0], syscall.SIGABRT)) // as a fault in its program would
	testdrive.Eventually(t, "the server that was aborted ends", func() bool {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", mysqlds[0]))
		return err != nil || len(raw) == 0
	})
	places["/metrics"], places["/readyz"] = p.Get(t, "/metrics"), p.Get(t, "/readyz")
	p.Signal(t, syscall.SIGQUIT)
	status := p.Wait(t)
	assert.True(t, status == 2 && strings.Contains(p.Log(), "goroutine 1 "),
		"SIGQUIT ended the broker with %d, without the stacks of its goroutines", status)
	places["the log"], places["the answers"] = p.Log(), p.Seen.HeardText()
	places["ps"] = commands() // the environment of servers is part of package launchertest
	var data string
	ts.Scan(t, &data, "SHOW data_directory")
	logged, err := os.ReadFile(filepath.Join(filepath.Dir(data), "postgres.log"))
	require.NoError(t, err)
	places["PostgreSQL's log"] = string(logged)
	checkLauncherFiles(t, p.Seen, env["LAUNCHER_DIR"], canary)

	for _, name := range slices.Sorted(maps.Keys(places)) {
		p.Seen.Check(t, name, places[name])
	}
	for _, name := range []string{"the tables", "the table of tasks", "the log", "the answers", "ps", "PostgreSQL's log"} {
		_, found := testdrive.Leak(places[name], canary)
		assert.True(t, found, "%s: the canary is not found there, so nothing would be", name)
	}
	last := testdrive.StartPlatform(t, server, env)
	for _, i := range made {
		i.Via(last).Remove(t)
	}
}

// noCores is the limit of one byte, soft and hard, with which no core is written.
var noCores = regexp.MustCompile(`Max core file size +1 +1 `)

// haveItWork runs every operation, including rotations, and returns the remaining instances.
func haveItWork(t *testing.T, p testdrive.Platform, env map[string]string, canary string) (made []testdrive.Instance) {
	for plan, update := range map[string]string{"shared-small": "shared-large", "dedicated-small": "dedicated-large"} {
		i := p.OwnInstance(t, plan)
		i.ID = plan + "-" + canary
		made = append(made, i)
		i.Create(t, nil, http.StatusCreated)
		b, c := i.Bound(t, nil)
		i.Bound(t, body{"parameters": body{"role": "read-only"}})
		i.Credentials(t, b.Bind(t, nil).Expect(t, http.StatusOK))
		i.Credentials(t, b.Fetch(t).Expect(t, http.StatusOK))
		if r := i.UpdatePlan(t, testdrive.Async, update); r.Status == http.StatusAccepted {
			i.Await(t, r.String("operation"))
		}
		i.Fetch(t).Expect(t, http.StatusOK)
		if plan == "dedicated-small" {
			rotateEverything(t, p, env, i)
			admin := testdrive.Open(t, adminOf(t, c, recorded(t, env, i.ID).AdminPassword))
			assert.False(t, testdrive.Read[bool](t, admin, "SELECT @@general_log"), "the server logs statements")
			admin.Close()
		}
		testdrive.Exec(t, c.Open(t), "CREATE VIEW v AS SELECT 1") // so that the account outlives its binding
		testdrive.ExpectEmpty(t, b.Unbind(t), http.StatusOK)
	}
	for _, step := range []string{"add", "promote"} { // only now, as the credentials above trust the first CA alone
		out := testdrive.Run(t, env, "ca", step).Expect(t, 0)
		p.Seen.Check(t, "ca "+step, out.Stdout+out.Stderr)
	}
	gone := p.MakeOwn(t, "dedicated-small")
	p.Seen.Add(recorded(t, env, gone.ID).AdminPassword)
	gone.Remove(t)
	return made
}

func rotateEverything(t *testing.T, p testdrive.Platform, env map[string]string, i testdrive.Instance) {
	p.Seen.Add(recorded(t, env, i.ID).AdminPassword)
	said := testdrive.RotateAdmin(t, env).Expect(t, 0)
	p.Seen.Add(recorded(t, env, i.ID).AdminPassword)
	rotated := maps.Clone(env)
	for _, step := range []string{"add", "promote"} {
		out := testdrive.Run(t, rotated, "keyset", step).Expect(t, 0)
		rotated["ENCRYPTION_KEYSET"] = strings.TrimSpace(out.Stdout)
		p.Seen.Add(rotated["ENCRYPTION_KEYSET"])
		said.Stderr += out.Stderr
	}
	keys := testdrive.Run(t, env, "rotate-keys").Expect(t, 0) // with the old keyset, so that this broker reads it all
	p.Seen.Check(t, "what the rotations printed", said.Stdout+said.Stderr+keys.Stdout+keys.Stderr)
}

// haveItFail sends requests with secrets that are refused or fail later.
func haveItFail(t *testing.T, p testdrive.Platform, canary string) {
	sent := rand.Text()
	p.Seen.Add(sent)
	i := p.OwnInstance(t, "shared-small")
	testdrive.ExpectRefusal(t, i.Provision(t, testdrive.Sync, body{"parameters": body{"password": sent}}), 400, "password")
	i.Do(t, "PUT", i.Path(), []byte(`{"service_id": "`+i.ServiceID+`", "password": "`+sent+`", `)).Expect(t, 400)
	i.Do(t, "PUT", i.Path(), []byte(`{"plan_id": {"`+sent+`": "`+sent+`"}}`)).Expect(t, 400)
	i.Do(t, "PUT", i.Path(), []byte(sent)).Expect(t, 400)
	i.NewBinding().Bind(t, body{"parameters": body{"role": "admin", "password": sent}}).Expect(t, 400)
	i.DoWith(t, "GET", "/v2/catalog", nil, map[string]string{"Authorization": "Bearer " + sent}).Expect(t, 401)
	i.DoWith(t, "GET", "/v2/catalog", nil, map[string]string{"X-Broker-API-Request-Identity": canary}).Expect(t, 200)
	guess := *p.Broker
	guess.Password = sent
	guess.Do(t, "GET", "/v2/catalog", nil).Expect(t, 401)

	failing := p.OwnInstance(t, "dedicated-small")
	operation := failing.Provision(t, testdrive.Async, body{"parameters": body{"collation": "utf8mb4_klingon_ci"}}).Operation(t)
	failing.AwaitFailure(t, operation)
	failing.Remove(t)
}

// failOnAWrongServer runs a broker whose password for its shared server is wrong.
func failOnAWrongServer(t *testing.T, p testdrive.Platform, env map[string]string) {
	wrong := p.Server
	wrong.Password = "wrong-" + rand.Text()
	other := maps.Clone(env)
	other["DATABASE_URL"] = servers.Postgres(t)
	other["MYSQL_SERVERS"] = testdrive.Encode(t, []body{{"name": "shared-1", "ca_certificate": wrong.CA,
		"uri": fmt.Sprintf("mysql://%s:%s@%s/", wrong.User, wrong.Password, wrong.Address())}})
	broken := testdrive.StartPlatform(t, wrong, other)
	r := broken.OwnInstance(t, "shared-small").Provision(t, testdrive.Sync, nil)
	assert.True(t, r.Status >= 500, "a provision on a server that refuses the broker: %d %s", r.Status, r.Raw)
	broken.Get(t, "/readyz")
	p.Seen.Check(t, "the log of a broker that a server refuses", broken.Log())
	broken.Seen.Check(t, "the tables of a broker that a server refuses", dumpTables(t, testdrive.OpenTasks(t, other), "instance", "task"))
}

// dumpTables is every row of tables, as text.
func dumpTables(t *testing.T, ts testdrive.Tasks, tables ...string) string {
	var dump strings.Builder
	for _, table := range tables {
		var rows string
		ts.Scan(t, &rows, "SELECT coalesce(string_agg(r::text, E'\n'), '') FROM "+table+" r")
		fmt.Fprintln(&dump, table, rows)
	}
	return dump.String()
}

// watch samples the command lines of what a launcher runs, also for a moment, until stop returns them.
func watch(t *testing.T, launcherDir string) (stop func() string) {
	ctx, cancel := context.WithCancel(t.Context())
	var commands strings.Builder
	var sampling sync.WaitGroup
	sampling.Go(func() {
		for tick := time.NewTicker(100 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			fmt.Fprintln(&commands, testdrive.Processes(t, launcherDir))
		}
	})
	stop = func() string {
		cancel()
		sampling.Wait()
		return commands.String()
	}
	t.Cleanup(func() { stop() })
	return stop
}

// checkLauncherFiles reads all that the launcher and its servers wrote, the data included.
func checkLauncherFiles(t *testing.T, seen *testdrive.Secrets, dir, canary string) {
	require.NoError(t, os.WriteFile(filepath.Join(dir, "canary"), []byte("for "+canary), 0o600))
	logs, found := 0, false
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // the servers run on and remove files of theirs
			return nil
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		if entry.Name() == "mysqld.log" {
			logs++
		}
		assert.NotEqual(t, "init.sql", entry.Name(), "%s was left", path)
		assert.False(t, strings.HasPrefix(entry.Name(), "core"), "%s is a core", path)
		raw, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		found = found || bytes.Contains(raw, []byte(canary))
		if strings.Contains(path, "/data/") {
			seen.CheckData(t, path, raw)
		} else {
			seen.Check(t, path, string(raw))
		}
		return nil
	})
	require.NoError(t, err)
	assert.True(t, logs != 0 && found, "read %d logs of servers; the canary was found: %v", logs, found)
}
