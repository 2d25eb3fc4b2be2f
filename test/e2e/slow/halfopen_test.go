package slow

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// Anybody who reaches a MySQL server can begin a login and leave it pending for the 10 s that servers wait. An unbind,
// or the deprovision of an instance with many bindings, waits for that at most once.
func TestHalfOpenLogins(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, server servers.MySQL) {
		private := testdrive.Private(t, server.Flavour)
		p := testdrive.StartPlatform(t, private, testdrive.Environment(t, private))
		unbound, i := p.MakeOwn(t, "shared-small"), p.MakeOwn(t, "shared-small")
		b, ended := unbound.Bound(t, nil)
		const bindings = 10
		var accounts []testdrive.Credentials
		for range bindings {
			_, c := i.Bound(t, nil)
			accounts = append(accounts, c)
		}
		// One defines something, so that its account stays until the database is gone.
		testdrive.Exec(t, accounts[0].Open(t), "CREATE VIEW v AS SELECT 1")

		keepHalfOpen(t, p.Server.Address(), 30)
		since := time.Now()
		testdrive.ExpectEmpty(t, b.Unbind(t), http.StatusOK)
		t.Logf("an unbind took %v", time.Since(since).Round(time.Millisecond))
		testdrive.ExpectRefused(t, ended.Fields(t))
		since = time.Now()
		testdrive.ExpectEmpty(t, i.Deprovision(t, testdrive.Sync), http.StatusOK)
		t.Logf("a deprovision of %d bindings took %v", bindings, time.Since(since).Round(time.Millisecond))
		for _, c := range accounts {
			testdrive.ExpectNothingLeft(t, p, c.Database, c.Username)
		}
	})
}

// keepHalfOpen keeps so many connections to a server on which nobody logs in, until the test ends. A new one follows
// each that the server closes.
func keepHalfOpen(t *testing.T, address string, n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var attackers, first sync.WaitGroup
	t.Cleanup(func() { cancel(); attackers.Wait() })
	for range n {
		first.Add(1)
		begun := sync.OnceFunc(first.Done)
		attackers.Go(func() {
			defer begun()
			for ctx.Err() == nil {
				if err := beginLogin(ctx, address, begun); err != nil && ctx.Err() == nil {
					t.Errorf("a half-open login: %v", err)
					return
				}
			}
		})
	}
	first.Wait()
}

// beginLogin connects, reads the server's greeting, and then nothing more than that the server has closed the connection.
func beginLogin(ctx context.Context, address string, begun func()) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := conn.Read(make([]byte, 1024)); err != nil {
		return err
	}
	begun()
	_, err = io.Copy(io.Discard, conn)
	if _, reset := errors.AsType[*net.OpError](err); reset {
		return nil
	}
	return err
}
