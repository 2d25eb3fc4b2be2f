package e2e

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	server := servers.Any(t)
	healthy := testdrive.StartWith(t, server, testdrive.Described("alive", server))
	anyone := map[string]string{"Authorization": "", "X-Broker-API-Version": ""}
	healthy.DoWith(t, "GET", "/healthz", nil, anyone).Expect(t, http.StatusOK)
	r := healthy.DoWith(t, "GET", "/readyz", nil, anyone).Expect(t, http.StatusOK)
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		r := healthy.DoWith(t, "POST", path, nil, anyone).Expect(t, http.StatusMethodNotAllowed)
		if r.Header.Get("Allow") != "GET, HEAD" || r.String("description") == "" {
			t.Errorf("POST %s: Allow %q, %s", path, r.Header.Get("Allow"), r.Raw)
		}
	}
	assert.True(t, r.String("postgresql") == "ok" && testdrive.Field(r.Body, "shared_servers", "alive") == "ok",
		"a healthy broker says %s", r.Raw)

	ailing := testdrive.StartWith(t, server, testdrive.DeadServer(t, "dead"), testdrive.Described("alive", server))
	ailing.DoWith(t, "GET", "/healthz", nil, anyone).Expect(t, http.StatusOK)
	r = ailing.DoWith(t, "GET", "/readyz", nil, anyone).Expect(t, http.StatusServiceUnavailable)
	if testdrive.Field(r.Body, "shared_servers", "dead") != "unreachable" || testdrive.Field(r.Body, "shared_servers", "alive") != "ok" {
		t.Errorf("a broker with a dead shared server says %s", r.Raw)
	}
}

// An object store that cannot be used is told at the start, by /readyz, by the doctor, and once it can be used again. A
// directory is never created: what should be mounted there may be missing.
func TestObjectStoreMissing(t *testing.T) {
	t.Parallel()
	server := servers.Any(t)
	env := testdrive.Environment(t, server)
	root := filepath.Join(t.TempDir(), "not-mounted")
	env["BACKUP_STORE"] = "file://" + root
	p := testdrive.StartPlatform(t, server, env)
	p.AwaitLog(t, "use of the object store failed")
	r := p.Do(t, "GET", "/readyz", nil).Expect(t, http.StatusOK)
	assert.True(t, r.String("status") == "degraded" && r.String("object_store") == "unusable",
		"a broker without its object store says %s", r.Raw)
	out := p.Operator(env).Run(t, 1, "doctor").Stdout
	assert.True(t, strings.Contains(out, "unreachable   object store") && strings.Contains(out, "file://"+root),
		"the doctor says %s", out)
	_, err := os.Stat(root)
	assert.ErrorIs(t, err, fs.ErrNotExist, "the directory was created")
	require.NoError(t, os.Mkdir(root, 0o700))
	p.Operator(env).Run(t, 0, "doctor")
	all, err := os.ReadDir(root)
	assert.True(t, err == nil && len(all) <= 0, "the probe has left %v, %v", all, err)
}

// A PostgreSQL that has become a standby, or is configured to refuse writes, answers, but the broker can only read.
func TestReadOnlyPostgres(t *testing.T) {
	t.Parallel()
	server := servers.Any(t) // what matters is PostgreSQL
	pg := testdrive.StartPostgres(t)
	env := testdrive.Environment(t, server)
	env["ANSWER_TIMEOUT"] = "2s" // some servers do not respond
	env["DATABASE_URL"] = pg.URL
	p := testdrive.StartPlatform(t, server, env)
	i := p.MakeOwn(t, "shared-small")
	set := func(value string) {
		records := testdrive.OpenTasks(t, env)
		records.Exec(t, "ALTER SYSTEM SET default_transaction_read_only = "+value)
		records.Exec(t, "SELECT pg_reload_conf()")
	}
	shows := func(status int, word, up string) {
		t.Helper()
		testdrive.Eventually(t, limits.Stuck, "the broker says that PostgreSQL is "+word, func() bool {
			r := p.Do(t, "GET", "/readyz", nil)
			return r.Status == status && r.String("postgresql") == word
		})
		awaitFigures(t, p, map[string]string{"mysql_broker_postgresql_up": up})
	}
	shows(http.StatusOK, "ok", "1")
	set("on")
	shows(http.StatusServiceUnavailable, "read-only", "0")
	i.Fetch(t).Expect(t, http.StatusOK)
	testdrive.ExpectRefusal(t, i.Deprovision(t, testdrive.Sync), http.StatusServiceUnavailable, "Try again")
	p.AwaitLog(t, "read-only transaction")
	set("off")
	shows(http.StatusOK, "ok", "1")
	i.Deprovision(t, testdrive.Sync).Expect(t, http.StatusOK)
}
