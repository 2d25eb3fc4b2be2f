package operators

import (
	"context"
	"crypto/rand"
	"database/sql/driver"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestEveryConnectionTaken has clients take every connection of a shared server, and every one that becomes free. All
// requests of platforms succeed nevertheless.
func TestEveryConnectionTaken(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, server servers.MySQL) {
		private := testdrive.Private(t, server.Flavour)
		env := testdrive.Environment(t, private)
		env["LAUNCHER"] = "none"
		p := testdrive.StartPlatform(t, private, env)
		p.AwaitLog(t, `"msg":"shared server"`)
		takeConnections(t, p)

		i := p.MakeOwn(t, "shared-small")
		b, c := i.Bound(t, nil)
		testdrive.ExpectEmpty(t, i.UpdatePlan(t, testdrive.Sync, "shared-large"), http.StatusOK)
		// An application may be faster than the clients when the broker has closed a connection, but not each time.
		testdrive.Eventually(t, limits.Stuck, "an application is refused, as no connection is left", func() bool {
			db := testdrive.Connect(t, c.Fields(t))
			defer db.Close()
			return testdrive.ErrorNumber(db.PingContext(t.Context())) == 1040
		})
		testdrive.ExpectEmpty(t, b.Unbind(t), http.StatusOK)
		b, _ = i.Bound(t, nil)

		// A broker that starts only now gets in by the one connection that servers keep for it: enough for all but new
		// instances.
		p.Kill(t)
		i = i.Via(testdrive.StartPlatform(t, private, env))
		b.Instance = i
		testdrive.ExpectEmpty(t, b.Unbind(t), http.StatusOK)
		i.Bound(t, nil)
		testdrive.ExpectEmpty(t, i.Deprovision(t, testdrive.Sync), http.StatusOK)
	})
}

const maxConnections = 12

// takeConnections limits the server's connections, and returns once all are taken by clients that try to get them back
// when they lose them, until the test ends.
func takeConnections(t *testing.T, p testdrive.Platform) {
	t.Helper()
	admin := p.Admin(t)
	hog := p.Server
	hog.User, hog.Password = "hog", rand.Text()
	testdrive.Exec(t, admin, fmt.Sprintf("CREATE USER hog IDENTIFIED BY '%s'", hog.Password),
		fmt.Sprintf("SET GLOBAL max_connections = %d", maxConnections))
	admin.Close()
	login := testdrive.Credentials{CACertificate: hog.CA, Host: hog.Host}
	connector, err := mysql.NewConnector(login.Login(t, hog.User, hog.Password, hog.Address(), ""))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		clients.Wait()
	})
	full := make(chan struct{}, maxConnections)
	for range maxConnections {
		clients.Go(func() { hold(ctx, connector, full) })
	}
	testdrive.Receive(t, full, "the server has no connection left")
}

// hold keeps a connection, or tries to get one, until ctx ends. It tells once that the server had none left.
func hold(ctx context.Context, connector driver.Connector, full chan<- struct{}) {
	for reported := false; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		conn, err := connector.Connect(ctx)
		for err == nil && ctx.Err() == nil {
			time.Sleep(20 * time.Millisecond)
			err = conn.(driver.Pinger).Ping(ctx)
		}
		if conn != nil {
			_ = conn.Close()
		}
		if testdrive.ErrorNumber(err) == 1040 && !reported {
			reported = true
			full <- struct{}{}
		}
	}
}
