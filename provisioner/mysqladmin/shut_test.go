package mysqladmin_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

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
	for _, a := range []mysqladmin.Account{definer, other} {
		open, err := f.loginAs(a).Conn(t.Context())
		f.must(err)
		session := f.lock(f.database+" without files", leaseHolds)
		allow := f.forbidFiles()
		kept, err := session.Accounts.Revoke(t.Context(), a.Name, a.Role, a.Database)
		allow()
		assert.False(t, err != nil || a.Name == definer.Name && !kept, "without files: kept %v, %v", kept, err)
		f.expectShut(a, open)
	}
	f.session = f.lock(f.database+" with files", leaseHolds)
	f.expectNoAccess(definer, true)
	f.expectNoAccess(other, false)
}

// forbidFiles lets the server open no more files than it has open now, until the function that it returns is called.
func (f *fixture) forbidFiles() (allow func()) {
	f.t.Helper()
	file := f.strings(f.t.Context(), "SELECT @@pid_file")[0]
	if !filepath.IsAbs(file) {
		file = filepath.Join(f.strings(f.t.Context(), "SELECT @@datadir")[0], file)
	}
	text, err := os.ReadFile(file)
	f.must(err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	f.must(err)
	before := f.limitFiles(pid, "3")
	allow = sync.OnceFunc(func() { f.limitFiles(pid, before) })
	f.t.Cleanup(allow)
	return allow
}

// limitFiles sets the soft limit of files that a process may have open, in that process's name, and returns the one
// before. https://man7.org/linux/man-pages/man1/prlimit.1.html
func (f *fixture) limitFiles(pid int, limit string) (before string) {
	f.t.Helper()
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

// expectShut checks that nobody can log in to an account, and that its session has ended.
func (f *fixture) expectShut(a mysqladmin.Account, open interface{ PingContext(context.Context) error }) {
	f.t.Helper()
	assert.NotZero(f.t, testdrive.ErrorNumber(f.checkLogin(a.Name, a.Password)), "login to an account that was to be shut")
	assert.Error(f.t, open.PingContext(f.t.Context()), "a session of an account that was to be shut lives on")
}
