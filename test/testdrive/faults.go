package testdrive

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/mysqladmin"
)

// Word is what a broker has to do at a fault point.
type Word string

const (
	GoOn Word = "go on"
	Fail Word = "fail" // the step fails
	Die  Word = "die"  // the process is killed at once
)

// Faults is notified of every fault point that brokers reach, and decides what happens there: see package fault.
type Faults struct {
	listener net.Listener
	mu       sync.Mutex
	decide   func(pid int, point string) Word
}

// NewFaults makes the brokers started in env, from now on until the test ends, announce their fault points. They
// continue until Decide says otherwise.
func NewFaults(t testing.TB, env map[string]string) *Faults {
	dir, err := os.MkdirTemp("", "mbf") // short, as the paths of sockets must be
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	f := &Faults{}
	f.GoOn()
	path := filepath.Join(dir, "s")
	f.listener, err = net.Listen("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { f.listener.Close() })
	env["FAULT_SOCKET"] = path
	go func() {
		for {
			conn, err := f.listener.Accept()
			if err != nil {
				return
			}
			go f.answer(conn)
		}
	}()
	return f
}

// Decide sets the function that decides what happens at each point. It may be called from several goroutines at once,
// and may block: the goroutine at the point waits, and the rest of the broker continues.
func (f *Faults) Decide(decide func(pid int, point string) Word) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.decide = decide
}

// GoOn has all brokers go on at all points.
func (f *Faults) GoOn() { f.Decide(func(int, string) Word { return GoOn }) }

func (f *Faults) answer(conn net.Conn) {
	defer conn.Close()
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return
	}
	var pid int
	number, point, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
	if _, err := fmt.Sscan(number, &pid); err != nil {
		return
	}
	f.mu.Lock()
	decide := f.decide
	f.mu.Unlock()
	word := decide(pid, point)
	if word == Die {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended for another reason
		return
	}
	fmt.Fprintln(conn, word)
}

// HoldAt holds brokers that come to a point until release is called, and closes at when the first has come there.
func HoldAt(t *testing.T, f *Faults, point string) (at <-chan struct{}, release func()) {
	g := Hold(t, f, point)[0]
	return g.Reached, g.Release
}

// Hold holds brokers that come to one of these points until its gate is released.
func Hold(t *testing.T, f *Faults, points ...string) (gates []*Gate) {
	for _, point := range points {
		gates = append(gates, NewGate(t, point))
	}
	f.Decide(func(_ int, at string) Word {
		for _, g := range gates {
			g.Pass(at)
		}
		return GoOn
	})
	return gates
}

// Gate keeps brokers at a point until release.
type Gate struct {
	point   string
	once    sync.Once
	Reached chan struct{}
	free    chan struct{}
	Release func()
}

func NewGate(t *testing.T, point string) *Gate {
	g := &Gate{point: point, Reached: make(chan struct{}), free: make(chan struct{})}
	g.Release = sync.OnceFunc(func() { close(g.free) })
	t.Cleanup(g.Release)
	return g
}

// Pass returns at once for a point other than its own.
func (g *Gate) Pass(point string) {
	if point == g.point {
		g.once.Do(func() { close(g.Reached) })
		<-g.free
	}
}

// DieAt kills the broker when it reaches a point for the nth time.
func DieAt(at string, n int32) func(int, string) Word {
	var reached atomic.Int32
	return func(_ int, point string) Word {
		if point == at && reached.Add(1) == n {
			return Die
		}
		return GoOn
	}
}

// Stall makes every statement that changes something on a server wait until release, as one that is being backed up
// does. The broker's statements give up after 2 s each.
func Stall(t *testing.T, admin *sql.DB) (release func()) {
	conn, err := admin.Conn(t.Context())
	require.NoError(t, err)
	Exec(t, conn, "FLUSH TABLES WITH READ LOCK")
	release = sync.OnceFunc(func() {
		_, err := conn.ExecContext(context.Background(), "UNLOCK TABLES")
		if err != nil && !mysqladmin.Unreachable(err) { // else the server was killed, and its locks ended with it
			t.Errorf("release the server: %v", err)
		}
		conn.Close()
	})
	t.Cleanup(release)
	return release
}

// AwaitStatement waits until a session executes a statement that begins like this.
func AwaitStatement(t *testing.T, admin *sql.DB, beginning string) {
	AwaitTrue(t, admin, `SELECT EXISTS (SELECT 1 FROM information_schema.processlist
		WHERE id <> CONNECTION_ID() AND info LIKE CONCAT(?, '%'))`, beginning)
}
