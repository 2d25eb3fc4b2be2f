// Package admit bounds how much tests run at once on this machine, whatever test binaries and checkouts they belong to.
//
// The machine has so many units. A test waits for some before it starts its first process, and has them until it ends.
// What it starts later it starts at once: nobody waits who has something that others wait for, and a test that drives
// several processes keeps few of them busy at a time. A unit is a locked file, so that the death of a test binary
// returns it.
package admit

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The units of what tests start: about how many processors it keeps busy while it starts.
const (
	Broker   = 1
	MariaDB  = 1
	Postgres = 1
	MySQL    = 2
	Browser  = 2
	Cluster  = 4
)

// machine is shared by all users; $TMPDIR would be that of one run. As processes also wait, it has more units than
// processors.
var machine = &limit{dir: "/tmp/mysql-broker-admission", units: 3 * runtime.NumCPU()}

// Enter takes units for the first thing that the test is about to start, until the test ends. It waits for them, behind
// those who came before. It does nothing for what a test starts that has some already.
func Enter(t testing.TB, units int) {
	require.NoError(t, machine.enter(t, units), "wait until this machine has room")
}

const pollInterval = 20 * time.Millisecond

type limit struct {
	dir   string
	units int

	turn sync.Mutex // of this process, so that only one thread waits for that of the machine
	held sync.Map   // names of the tests that have units, or wait for them

	// Tests of this process: those that wait, those that have entered, and those of them that have no units.
	waiting, inside, guests atomic.Int32
}

func (l *limit) enter(t testing.TB, units int) error {
	if err := os.MkdirAll(l.dir, 0o777); err != nil {
		return err
	}
	_ = os.Chmod(l.dir, 0o777) // fails where another user has made it, who did the same
	t.Cleanup(func() { l.held.Delete(t.Name()) })
	if l.entered(t.Name()) {
		return nil
	}
	l.waiting.Add(1)
	guest, err := l.await(t, units)
	l.waiting.Add(-1)
	l.count(t, &l.inside)
	if guest {
		l.count(t, &l.guests)
	}
	return err
}

// count counts the test until it ends.
func (l *limit) count(t testing.TB, in *atomic.Int32) {
	in.Add(1)
	t.Cleanup(func() { in.Add(-1) })
}

// await takes units in turn. A guest enters in the place of an idle test instead, maybe without units.
func (l *limit) await(t testing.TB, units int) (guest bool, err error) {
	l.turn.Lock()
	defer l.turn.Unlock()
	turn, err := l.open("turn")
	if err != nil {
		return false, err
	}
	granted, over := make(chan error, 1), make(chan struct{})
	defer close(over)
	go func() {
		granted <- syscall.Flock(int(turn.Fd()), syscall.LOCK_EX)
		<-over
		unlock(turn)
	}()
	first := false
	for missing := min(units, l.units); missing > 0; {
		if l.idle() > int(l.guests.Load()) {
			return true, nil
		}
		select {
		case err := <-granted:
			if err != nil {
				return false, fmt.Errorf("lock %s: %w", turn.Name(), err)
			}
			first = true
		case <-time.After(pollInterval):
		}
		if first {
			taken, err := l.take(t, missing)
			if err != nil {
				return false, err
			}
			missing -= taken
		}
	}
	return false, nil
}

// idle is how many tests of this process, at least, have entered but are not among those that go test lets run. Their
// parallel parts run after the tests that it has not begun: if those waited for units of an idle test, they would wait
// for each other.
func (l *limit) idle() int { return int(l.inside.Load()) - max(0, parallel()-int(l.waiting.Load())) }

// parallel is how many tests of this process run at once.
func parallel() int {
	n, err := strconv.Atoi(flag.Lookup("test.parallel").Value.String())
	if err != nil {
		panic(err) // a flag of another kind
	}
	return n
}

// entered reports whether a test, or one that it is a part of, has units. It has from now on.
func (l *limit) entered(test string) (already bool) {
	_, already = l.held.LoadOrStore(test, true)
	for at := len(test); at > 0 && !already; at = strings.LastIndexByte(test[:at], '/') {
		if at < len(test) {
			_, already = l.held.Load(test[:at])
		}
	}
	return already
}

// take takes at most so many of the units that are free, until the test ends.
func (l *limit) take(t testing.TB, most int) (taken int, err error) {
	for n := 0; n < l.units && taken < most; n++ {
		file, err := l.open(strconv.Itoa(n))
		if err != nil {
			return taken, err
		}
		if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
			file.Close()
			continue
		}
		taken++
		t.Cleanup(func() { unlock(file) })
	}
	return taken, nil
}

func (l *limit) open(name string) (*os.File, error) {
	return os.OpenFile(filepath.Join(l.dir, name), os.O_RDONLY|os.O_CREATE, 0o666)
}

// unlock does not leave it to Close: a program that is being started has the file open for a moment.
func unlock(file *os.File) {
	_ = syscall.Flock(int(file.Fd()), syscall.LOCK_UN) // cannot fail for an open file
	file.Close()
}
