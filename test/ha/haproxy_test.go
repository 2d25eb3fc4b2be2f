package ha

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/audit"
	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// HAProxy, as deploy/haproxy sets it up, leads applications to the primary of a cluster. First the broker knows the
// nodes, then only the address of the proxy.
func TestHAProxy(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		c := testdrive.StartCluster(t, s.Flavour)
		port := startHAProxy(t, c)
		env := testdrive.Environment(t, c.Nodes[0].MySQL)
		env["ANSWER_TIMEOUT"] = "2s" // some servers do not respond
		for _, known := range []string{"all nodes", "the proxy alone"} {
			env["MYSQL_SERVERS"] = c.Described(t, port)
			if known == "the proxy alone" {
				env["MYSQL_SERVERS"] = strings.Replace(env["MYSQL_SERVERS"], strings.Join(c.Addresses(), ","),
					fmt.Sprint("127.0.0.1:", port), 1)
			}
			w := &clusterWorld{world: newWorld(t, testdrive.Start(t, env)), Cluster: c}
			kept := w.bound(t)
			app := kept.Credentials
			require.Equal(t, port, app.Port, "credentials have port %d instead of the proxy's, %d", app.Port, port)
			w.endsSessions(t, kept.InstanceID, "before a failover")
			took := w.failsOver(t, app)
			t.Logf("the broker knows %s: writable through HAProxy after %.1f s", known, took.Seconds())
			w.endsSessions(t, kept.InstanceID, "after a failover")
			assert.NoError(t, w.Unbind(w.small, kept))
			w.clear(t)
			for _, b := range w.brokers {
				b.Kill(t)
			}
		}
	})
}

// startHAProxy starts HAProxy before a cluster, and returns its port.
func startHAProxy(t *testing.T, c *testdrive.Cluster) (port int) {
	dir := t.TempDir()
	port = testdrive.FreePort(t)
	replace := []string{"bind :3306", fmt.Sprint("bind 127.0.0.1:", port), "/etc/haproxy/", dir + "/",
		"  user haproxy\n  group haproxy\n", ""}
	names := []string{"localhost", "Localhost", "LOCALHOST"} // for HAProxy three servers, for certificates one host
	for n, node := range c.Nodes {
		replace = append(replace, fmt.Sprintf("node-%d node-%[1]d:3306", n+1), names[n]+" "+node.Address())
	}
	for _, name := range []string{"haproxy.cfg", "writable.sh"} {
		edited := strings.NewReplacer(replace...).Replace(testdrive.Shipped(t, "deploy/haproxy/"+name))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(edited), 0o700))
	}
	for name, content := range map[string]string{"mysql-ca.pem": c.Nodes[0].CA, "check.cnf": "[client]\n" +
		"user=haproxy_check\npassword=a-password-of-checks\nssl-ca=" + dir + "/mysql-ca.pem\nssl-verify-server-cert\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	require.NoError(t, c.Nodes[c.Primary(t)].Exec(t,
		"CREATE USER haproxy_check@'%' IDENTIFIED BY 'a-password-of-checks' REQUIRE SSL"))
	testdrive.StartProgram(t, nil, "/usr/sbin/haproxy", "-db", "-f", filepath.Join(dir, "haproxy.cfg"))
	admin := c.Nodes[0].MySQL
	admin.Port = port
	db, err := admin.Open()
	require.NoError(t, err)
	defer db.Close()
	testdrive.Eventually(t, "HAProxy leads to a node", func() bool { return db.PingContext(t.Context()) == nil })
	return port
}

// endsSessions opens a session of an account through the proxy, and unbinds it.
func (w *clusterWorld) endsSessions(t *testing.T, instance, when string) {
	binding, err := w.Bind(w.small, instance)
	require.NoError(t, err)
	db, err := binding.Credentials.Open()
	require.NoError(t, err)
	defer db.Close()
	var session *sql.Conn
	testdrive.Eventually(t, "a session through HAProxy", func() bool {
		session, err = db.Conn(t.Context())
		return err == nil
	})
	defer session.Close()
	require.NoError(t, w.Unbind(w.small, binding))
	_, err = session.ExecContext(context.Background(), "SELECT 1")
	assert.Error(t, err, "%s: a session through HAProxy works after its account was ended", when)
	assert.Error(t, db.Ping(), "%s: an account that was ended can log in through HAProxy", when)
}

// failsOver kills the primary while an application writes and the platform makes and ends bindings. It returns when the
// application can write again. Both go on in time.
func (w *clusterWorld) failsOver(t *testing.T, app audit.Credentials) time.Duration {
	require.NoError(t, write(t.Context(), app, uuid.NewString()))
	end := w.load(t, 1)
	w.awaitDone(t, 6)
	old := w.Primary(t)
	w.Nodes[old].Kill(t)
	killed, interval, done := time.Now(), limits.Watch(), w.done.Load()
	var took time.Duration
	var writing sync.WaitGroup
	writing.Go(func() {
		assert.NoError(t, write(t.Context(), app, uuid.NewString()), "the application writes no more")
		took = time.Since(killed)
	})
	w.awaitMoreThan(t, done, 4)
	interval.Done(t, "operations go on", failoverTime)
	writing.Wait()
	interval.Prompt(t, "the application writes", took, failoverTime)
	end()
	w.Start(t, old, false)
	w.AwaitComplete(t)
	w.expectOnly503(t)
	return took
}
