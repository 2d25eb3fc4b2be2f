package e2e

import (
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// restartTime bounds how long a server that cannot be started is left alone before it is tried again: the launcher's
// longest pause, and the start.
const restartTime = testdrive.Patience

// If other programs use all ports, a creation fails and says so; once ports are free, the next creation works. If
// another program takes a crashed server's port, the server restarts as soon as the port is free.
func TestPortsTaken(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		env := testdrive.Environment(t, s)
		port, _, _ := strings.Cut(env["LAUNCHER_PORTS"], "-")
		stranger := listen(t, "127.0.0.1:"+port)
		env["LAUNCHER_PORTS"] = port + "-" + port
		p, tasks := startPlatform(t, s, env), openTasks(t, env)
		i := p.ownInstance(t, "dedicated-small")
		expectNoRoom(t, i, i.begin(t), tasks, "no port from "+port)
		checkNothingLeft(t, env["LAUNCHER_DIR"])
		i.remove(t)

		stranger.Close()
		i = p.ownInstance(t, "dedicated-small")
		i.await(t, i.begin(t))
		_, c := i.bound(t, nil)
		db := c.open(t)

		let := testdrive.CrashDedicated(t, env["LAUNCHER_DIR"], dedicatedID(t, env))
		stranger = listen(t, "127.0.0.1:"+port)
		let()
		p.AwaitLog(t, "Address already in use")
		stranger.Close()
		testdrive.Eventually(t, restartTime, "the server is back", func() bool { return db.PingContext(t.Context()) == nil })
		i.remove(t)
		expectNoProcess(t, env["LAUNCHER_DIR"])
	})
}

// expectNoRoom fails the test unless the operation fails for want of room, which users read, and operators the cause.
func expectNoRoom(t *testing.T, i instance, operation string, tasks tasks, cause string) {
	t.Helper()
	tasks.awaitFailure(t, i.id, time.Minute, cause)
	r := i.poll(t, "?operation="+operation).Expect(t, http.StatusOK)
	expectRefusal(t, r, http.StatusOK, "no room for a dedicated server", operation)
}

// listen takes a port, which the server that had it may have left just now.
func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	var l net.Listener
	testdrive.Eventually(t, testdrive.Patience, address+" is free", func() (free bool) {
		var err error
		l, err = net.Listen("tcp", address)
		return err == nil
	})
	t.Cleanup(func() { l.Close() })
	return l
}

// dedicatedID is the launcher's id of the one server that it has.
func dedicatedID(t *testing.T, env map[string]string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(env["LAUNCHER_DIR"], "instances", "*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("servers of the launcher: %v, %v", found, err)
	}
	return filepath.Base(found[0])
}
