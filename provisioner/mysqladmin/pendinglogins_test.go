package mysqladmin_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// A client that interrupts its login after the server has read its account has no session once Accounts.Revoke has
// returned, and gets none by continuing.
func TestRevokeAccessEndsLoginsThatStop(t *testing.T) {
	for ending, kept := range map[string]bool{"kept": true, "dropped": false} {
		t.Run(ending, func(t *testing.T) {
			onEachServer(t, func(t *testing.T, f *fixture) {
				a := f.account(plan.ReadWrite)
				if kept {
					f.exec(f.loginAs(a), "CREATE VIEW v AS SELECT 1")
				}
				r := f.nameRaw(a)
				f.expectNoAccess(a, kept)
				f.expectEnded(r)
			})
		})
	}
}

// The accounts of an instance are shut one by one. One wait ends the logins that are pending to any of them; on MariaDB,
// nothing waits. Whatever waits lists the server's connections again and again.
func TestEndLoginsOfManyAccounts(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		recorded := tracetest.NewInMemoryExporter()
		ctx, span := trace.NewTracerProvider(trace.WithSyncer(recorded)).Tracer("test").Start(t.Context(), "parent")
		defer span.End()
		listings := func() (n int) {
			for _, s := range recorded.GetSpans() {
				if strings.Contains(strings.ToLower(fmt.Sprint(s.Attributes)), "processlist") {
					n++
				}
			}
			recorded.Reset()
			return n
		}
		var accounts []mysqladmin.Account
		var names []string
		for range 5 {
			a := f.account(plan.ReadWrite)
			accounts, names = append(accounts, a), append(names, a.Name)
		}
		f.exec(f.loginAs(accounts[4]), "CREATE VIEW v AS SELECT 1") // so that MySQL locks it instead of dropping it
		silent, err := net.Dial("tcp", f.config.Addr)               // has not named an account, and may name any
		f.must(err)
		defer silent.Close()
		logins := []*rawLogin{f.nameRaw(accounts[0]), f.nameRaw(accounts[4])}
		pending := mysqladmin.PendingLogins{}
		for _, name := range names {
			found, err := f.session.Accounts.Shut(ctx, name)
			f.must(err)
			pending.Add(found)
		}
		n := listings()
		assert.Equal(t, len(names), n, "the connections were listed %d times while %d accounts were shut", n, len(names))
		f.must(f.session.Accounts.EndLogins(ctx, pending, names...))
		n = listings()
		assert.False(t, f.config.Name == "mysql" && n < 2 || f.config.Name == "mariadb" && n > 0,
			"the connections were listed %d times in the one wait", n)
		f.expectEnded(logins[0])
		f.expectEnded(logins[1])
		f.must(f.session.Databases.Drop(t.Context(), f.database))
		for _, name := range names {
			f.must(f.session.Accounts.DropShut(t.Context(), name))
			f.expectAccount(name, false)
		}
	})
}

// A session can change to another account, and stop in the middle of that. MySQL's SHOW PROCESSLIST hangs meanwhile, so
// that this takes a server with a performance schema.
func TestRevokeAccessEndsAChangeOfAccounts(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		if s.Flavour == "mysql" {
			s = testdrive.Private(t, s.Flavour)
		}
		f := newFixture(t, s)
		f.must(f.server.Setup.CheckPrivileges(t.Context()))
		for _, kept := range []bool{true, false} {
			a, other := f.account(plan.ReadWrite), f.account(plan.ReadWrite)
			if kept {
				f.exec(f.loginAs(a), "CREATE VIEW v AS SELECT 1")
			}
			r := f.nameRaw(other)
			f.must(r.prove())
			f.must(r.query(t.Context(), "DO 1"))
			f.must(r.change(a))
			f.expectNoAccess(a, kept)
			assert.Error(t, r.become(a.Password), "a session of another account became one of an account that was retired")
		}
	})
}

// expectEnded fails the test if a login that nameRaw has begun can become a session.
func (f *fixture) expectEnded(r *rawLogin) {
	assert.False(f.t, r.prove() == nil && r.query(f.t.Context(), "DO 1") == nil, "a pending login outlived its account")
}

// Tenants can use up the files that a server may have open. MariaDB then cannot list what an account defines. Access is
// revoked all the same, and the account is kept if objects may need it. MySQL reads no file for that, but ends itself
// within a second or two, when InnoDB opens a temporary file ("Cannot continue operation", MY-012646).
func TestRevokeAccessShutsWhereNoFileCanBeOpened(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	f := newFixture(t, testdrive.Private(t, s.Flavour))
	f.must(f.server.Setup.CheckPrivileges(t.Context()))
	definer, other := f.account(plan.ReadWrite), f.account(plan.ReadWrite)
	f.exec(f.loginAs(definer), "CREATE VIEW v AS SELECT 1")
	data := testdrive.Read[string](t, f.root, "SELECT @@datadir")
	pid := testdrive.Mysqlds(t, filepath.Dir(filepath.Clean(data)))[0]
	for _, a := range []mysqladmin.Account{definer, other} {
		open := f.connect(a)
		session := f.lock(f.database+" without files", leaseHolds)
		before := f.limitFiles(pid, "3") // no more than are open now
		allow := sync.OnceFunc(func() { f.limitFiles(pid, before) })
		t.Cleanup(allow)
		kept, err := session.Accounts.Revoke(t.Context(), a.Name, a.Database)
		allow()
		assert.False(t, err != nil || a.Name == definer.Name && !kept, "without files: kept %v, %v", kept, err)
		assert.NotZero(t, testdrive.ErrorNumber(f.checkLogin(a.Name, a.Password)), "login to an account that was to be shut")
		assert.Error(t, open.PingContext(t.Context()), "a session of an account that was to be shut lives on")
	}
	f.session = f.lock(f.database+" with files", leaseHolds)
	f.expectNoAccess(definer, true)
	f.expectNoAccess(other, false)
}

// limitFiles sets the soft limit of files that a process may have open, in that process's name, and returns the one
// before. https://man7.org/linux/man-pages/man1/prlimit.1.html
func (f *fixture) limitFiles(pid int, limit string) (before string) {
	prlimit := func(args ...string) string {
		cmd := exec.Command("prlimit", append([]string{"--pid", strconv.Itoa(pid)}, args...)...)
		of, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
		f.must(err)
		owner := of.Sys().(*syscall.Stat_t)
		if os.Geteuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
		}
		out, err := cmd.Output()
		f.must(err)
		return strings.TrimSpace(string(out))
	}
	before = prlimit("--nofile", "--output", "SOFT", "--noheadings")
	prlimit("--nofile=" + limit + ":")
	return before
}
