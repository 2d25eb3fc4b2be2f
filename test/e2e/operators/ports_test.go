package operators

import (
	"net"
	"strings"
	"testing"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// If other programs use all ports, a creation fails and says so; once ports are free, the next creation works. If
// another program takes a crashed server's port, the server restarts as soon as the port is free.
func TestPortsTaken(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	env := testdrive.Environment(t, s)
	port, _, _ := strings.Cut(env["LAUNCHER_PORTS"], "-")
	stranger := listen(t, "127.0.0.1:"+port)
	env["LAUNCHER_PORTS"] = port + "-" + port
	p, tasks := testdrive.StartPlatform(t, s, env), testdrive.OpenTasks(t, env)
	i := p.OwnInstance(t, "dedicated-small")
	testdrive.ExpectNoRoom(t, i, i.BeginProvision(t), tasks, "no port from "+port)
	testdrive.CheckNothingLeft(t, env["LAUNCHER_DIR"])
	i.Remove(t)

	stranger.Close()
	i = p.OwnInstance(t, "dedicated-small")
	i.Await(t, i.BeginProvision(t))
	_, c := i.Bound(t, nil)
	db := c.Open(t)

	let := testdrive.CrashDedicated(t, env["LAUNCHER_DIR"], testdrive.DedicatedID(t, env))
	stranger = listen(t, "127.0.0.1:"+port)
	let()
	p.AwaitLog(t, "Address already in use")
	stranger.Close()
	testdrive.Eventually(t, testdrive.RestartTime, "the server is back", func() bool { return db.PingContext(t.Context()) == nil })
	i.Remove(t)
	testdrive.ExpectNoProcess(t, env["LAUNCHER_DIR"])
}

// listen takes a port, which the server that had it may have left just now.
func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	var l net.Listener
	testdrive.Eventually(t, limits.Stuck, address+" is free", func() (free bool) {
		var err error
		l, err = net.Listen("tcp", address)
		return err == nil
	})
	t.Cleanup(func() { l.Close() })
	return l
}
