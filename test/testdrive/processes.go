package testdrive

import (
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"
)

// Processes lists the command lines of the running processes of this host that name something below dir, by process id.
func Processes(t testing.TB, dir string) map[int]string {
	all, err := procfs.AllProcs()
	require.NoError(t, err)
	found := map[int]string{}
	for _, p := range all {
		command, err := p.CmdLine()
		if text := strings.Join(command, " "); err == nil && strings.Contains(text, dir+"/") { // else it has ended
			found[p.PID] = text
		}
	}
	return found
}

// Mysqlds lists the process ids of the servers that a launcher runs under dir, in order.
func Mysqlds(t testing.TB, dir string) []int {
	var pids []int
	for pid, command := range Processes(t, dir) {
		program, _, _ := strings.Cut(command, " ")
		if name := filepath.Base(program); name == "mysqld" || name == "mariadbd" {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// SignalMysqlds sends a signal to all servers that a launcher runs under dir.
func SignalMysqlds(t testing.TB, dir string, s syscall.Signal) {
	for _, pid := range Mysqlds(t, dir) {
		signal(t, pid, s)
	}
}

// signal sends a signal to a process, which may have ended.
func signal(t testing.TB, pid int, s syscall.Signal) {
	err := syscall.Kill(pid, s)
	require.False(t, err != nil && err != syscall.ESRCH, "signal process %d: %v", pid, err)
}

// Ports for launchers, followed by single ports. They are above the ports of test/servers and below those that the
// kernel gives to clients.
const (
	firstRange = 22000
	portsEach  = 20
	ranges     = 500
	firstPort  = firstRange + ranges*portsEach
	ports      = 768
)

// PortRange returns twenty ports for one launcher. No other test, in any process, gets any of them until this one ends.
func PortRange(t testing.TB) (low, high int) {
	low = firstRange + portsEach*reserve(t, "range of ports", ranges)
	return low, low + portsEach - 1
}

// FreePort returns a port on which nobody listens. The kernel gives it to no client, and no other test, in any process,
// gets it until this one ends.
func FreePort(t testing.TB) int {
	for {
		port := firstPort + reserve(t, "port", ports)
		if l, err := net.Listen("tcp", ":"+strconv.Itoa(port)); err == nil {
			_ = l.Close()
			return port
		}
	}
}

// reserve takes one of count numbers for a test. A socket with an abstract name reserves each: it leaves no file, and
// disappears with its process. https://man7.org/linux/man-pages/man7/unix.7.html
func reserve(t testing.TB, kind string, count int) int {
	t.Helper()
	first := rand.IntN(count)
	for i := range count {
		n := (first + i) % count
		if l, err := net.Listen("unix", fmt.Sprintf("@mysql-broker test %s %d", kind, n)); err == nil {
			t.Cleanup(func() { _ = l.Close() })
			return n
		}
	}
	t.Fatalf("every %s that tests may use is taken", kind)
	return 0
}
