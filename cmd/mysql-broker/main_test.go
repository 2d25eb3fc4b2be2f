package main

import (
	"maps"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestMain(m *testing.M) {
	testdrive.Main = run
	servers.Main(m)
}

// The broker also stops in good order when the terminal closes, and goes on under nohup.
func TestHangup(t *testing.T) {
	assert.True(t, slices.Contains(stops(), os.Signal(syscall.SIGHUP)) != signal.Ignored(syscall.SIGHUP),
		"%v end the broker", stops())
	signal.Ignore(syscall.SIGHUP)
	defer signal.Reset(syscall.SIGHUP)
	assert.True(t, len(stops()) == 2, "%v end a broker under nohup", stops())
}

// A process that was started with a limit of 0, and may not raise it, returns an error if a program could still collect
// its core.
func TestForbidCores(t *testing.T) {
	require.NoError(t, forbidCores("not read"))
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_CORE, &limit))
	assert.True(t, limit == (unix.Rlimit{Cur: 1, Max: 1}), "the limit is %+v", limit)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})) // it stays so, for this process
	file, pipe := filepath.Join(t.TempDir(), "file"), filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, os.WriteFile(file, []byte("core\n"), 0o600))
	require.NoError(t, os.WriteFile(pipe, []byte("|/usr/bin/collect %p\n"), 0o600))
	unprivileged(t, func() {
		assert.NoError(t, forbidCores(file), "cores in files")
		for _, pattern := range []string{pipe, "/no/such/file"} {
			err := forbidCores(pattern)
			assert.True(t, err != nil && strings.Contains(err.Error(), pattern), "%s: %v", pattern, err)
		}
	})
}

// unprivileged runs fn on a thread of its own that has no capabilities.
func unprivileged(t *testing.T, fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&header, &none[0]); err != nil {
			t.Error(err)
			return
		}
		fn()
	}()
	<-done
}

// TestCommandsLeakNothing runs commands where PostgreSQL cannot be reached. That is not a configuration error: the
// platform should start the broker again. What is wrong with a configuration is TestBadConfiguration's.
func TestCommandsLeakNothing(t *testing.T) {
	t.Parallel()
	good := wrongly(t, map[string]string{"DATABASE_URL": servers.Postgres(t)})
	testdrive.Run(t, good, "migrate").Expect(t, 0)
	const hidden = "do-not-tell-anybody"
	seen := &testdrive.Secrets{}
	seen.Add(hidden, secret, good["ENCRYPTION_KEYSET"])
	wrongPassword, err := url.Parse(good["DATABASE_URL"])
	require.NoError(t, err, "DATABASE_URL is no URL")
	password, _ := wrongPassword.User.Password()
	seen.Add(password)
	wrongPassword.User = url.UserPassword(wrongPassword.User.Username(), hidden)
	for mistake, test := range map[string]struct {
		url    string
		status int
	}{
		"PostgreSQL does not listen":         {"postgres://me:" + hidden + "@127.0.0.1:1/db", 1},
		"PostgreSQL refuses":                 {wrongPassword.String(), 1},
		"DATABASE_URL has an unknown option": {"postgres://me:" + hidden + "@h/db?sslmode=" + hidden, 78},
	} {
		env := maps.Clone(good)
		env["DATABASE_URL"] = test.url
		for _, command := range []string{"serve", "migrate", "rotate-keys", "rotate-admin-passwords", "doctor"} {
			want := test.status
			if command == "rotate-admin-passwords" { // which is not configured: it needs a launcher
				want = 78
			}
			out := testdrive.Run(t, env, command).Expect(t, want)
			assert.NotEmpty(t, out.Stderr, "%s, %s", command, mistake)
			seen.Check(t, command+", "+mistake, out.Stdout+out.Stderr)
		}
	}
}
