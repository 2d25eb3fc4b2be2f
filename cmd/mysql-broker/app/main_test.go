package app

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"mysql-broker/broker/catalog"
	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/test/logged"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestMain(m *testing.M) { servers.Main(m) }

// start starts a broker in this process. stop, which may be called early, stops it.
func start(t *testing.T, s servers.MySQL, env map[string]string, log io.Writer) (stop func(), p testdrive.Platform) {
	cfg, err := config.FromEnvironment(func(name string) string { return env[name] })
	require.NoError(t, err)
	c, err := catalog.Load(cfg.CatalogPath)
	require.NoError(t, err)
	a, err := Start(t.Context(), cfg, c, slog.New(slog.NewTextHandler(log, nil)))
	require.NoError(t, err)
	stop = sync.OnceFunc(a.Close)
	t.Cleanup(stop)
	return stop, testdrive.Platform{Server: s, Seen: &testdrive.Secrets{}, Broker: &testdrive.Broker{
		URL: fmt.Sprintf("http://127.0.0.1:%d", a.Port()), Username: testdrive.Username, Password: testdrive.Password}}
}

// A PostgreSQL that accepts no writes counts as down. Reads are answered, and writes are to be sent again.
func TestReadOnlyPostgres(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	env := testdrive.Environment(t, s)
	_, p := start(t, s, env, io.Discard)
	i := p.MakeOwn(t, "shared-small")
	records := testdrive.OpenTasks(t, env)
	set := func(value string) {
		records.Exec(t, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = "+value+"', "+
			"current_database()); END $$")
	}
	shows := func(word, up string) {
		testdrive.Eventually(t, "PostgreSQL is "+word, func() bool {
			return p.Do(t, "GET", "/readyz", nil).String("postgresql") == word && p.Scrape(t)["mysql_broker_postgresql_up"] == up
		})
	}
	set("on")
	records.Exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid()`) // connections keep the setting
	shows("read-only", "0")
	i.Fetch(t).Expect(t, http.StatusOK)
	testdrive.ExpectRefusal(t, i.Deprovision(t, testdrive.Sync), http.StatusServiceUnavailable, "Try again")
	set("off")
	shows("ok", "1")
	testdrive.Eventually(t, "the instance is deleted", func() bool {
		return i.Deprovision(t, testdrive.Sync).Status == http.StatusGone
	})
}

// Bindings that expire while no broker runs end when one starts.
func TestExpiredMeanwhile(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	env := testdrive.Environment(t, s)
	var log logged.Text
	stop, p := start(t, s, env, &log)
	i := p.MakeOwn(t, "shared-small")
	missed, gone := i.Bound(t, nil)
	stop()
	testdrive.OpenTasks(t, env).Exec(t, "UPDATE binding SET expires_at = now() WHERE id = $1", missed.BindingID)
	_, p = start(t, s, env, &log)
	testdrive.Eventually(t, "the binding has ended", func() bool {
		return log.Count("a service binding has expired") == 1 && !testdrive.AccountExists(t, p, gone.Username)
	})
	missed.Instance = i.Via(p)
	testdrive.ExpectEmpty(t, missed.Unbind(t), http.StatusOK)
	testdrive.ExpectEmpty(t, missed.Instance.Deprovision(t, testdrive.Sync), http.StatusOK)
}

// While operations change instances, expired accounts are locked, even if another server does not answer.
func TestExpiryBesideSilentServer(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	env := testdrive.Environment(t, s)
	_, p := start(t, s, env, io.Discard)
	silent, well := p.MakeOwn(t, "dedicated-small"), p.MakeOwn(t, "shared-small")
	for range 6 { // with ten seconds for each
		silent.Bound(t, nil)
	}
	_, c := well.Bound(t, nil)
	records := testdrive.OpenTasks(t, env)
	records.Exec(t, `INSERT INTO task (instance_id, kind, plan_id, run_at)
		SELECT id, 'update', plan_id, now() + interval '1 h' FROM instance`)
	signal := func(s syscall.Signal) { testdrive.SignalMysqlds(t, env["LAUNCHER_DIR"], s) }
	signal(syscall.SIGSTOP)
	defer signal(syscall.SIGCONT)
	records.Exec(t, "UPDATE binding SET expires_at = now()")
	login := testdrive.Connect(t, c.Fields(t))
	login.SetMaxIdleConns(0)
	testdrive.Eventually(t, "the account is locked", func() bool { return login.PingContext(t.Context()) != nil })
	signal(syscall.SIGCONT)
	records.Exec(t, "UPDATE task SET state = 'succeeded', finished_at = now() WHERE kind = 'update'")
	well.Remove(t)
	silent.Remove(t)
}

// A broker starts while the API server of one launcher does not answer, and works with the servers of another one.
func TestOneLauncherIsAway(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	env := testdrive.Environment(t, s)
	for _, name := range []string{"DIR", "PORTS", "MYSQLD"} {
		env["LAUNCHER_PROCESS_"+name] = env["LAUNCHER_"+name]
		delete(env, "LAUNCHER_"+name)
	}
	maps.Copy(env, map[string]string{"LAUNCHER": "process,far=kubernetes", "LAUNCHER_FAR_NAMESPACE": "far",
		"LAUNCHER_FAR_API": "https://127.0.0.1:1", "LAUNCHER_FAR_API_TOKEN": "token", "LAUNCHER_FAR_SERVICE": "cluster",
		"LAUNCHER_FAR_IMAGES": s.Flavour + "-99.9=image"})
	near := testdrive.CatalogWith(t, env["CATALOG"], "dedicated-small", "launcher: process")
	env["CATALOG"] = testdrive.CatalogWith(t, near, "dedicated-large", "launcher: far")
	_, p := start(t, s, env, io.Discard)
	p.MakeOwn(t, "dedicated-small").Remove(t)
}
