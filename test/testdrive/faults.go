package testdrive

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
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
	t.Helper()
	dir, err := os.MkdirTemp("", "mbf") // short, as the paths of sockets must be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	f := &Faults{}
	f.Decide(func(int, string) Word { return GoOn })
	path := filepath.Join(dir, "s")
	if f.listener, err = net.Listen("unix", path); err != nil {
		t.Fatal(err)
	}
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
