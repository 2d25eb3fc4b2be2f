package admit

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const dirVar = "TEST_ADMIT_DIR"

// TestMain is also a process that holds all units until it is killed.
func TestMain(m *testing.M) {
	dir := os.Getenv(dirVar)
	if dir == "" {
		os.Exit(m.Run())
	}
	holder := &testing.B{}
	if err := of(dir, 2).enter(holder, 2); err != nil {
		panic(err)
	}
	os.Stdout.WriteString("entered\n")
	_, _ = os.Stdin.Read(make([]byte, 1)) // of which there is none
	runtime.KeepAlive(holder)
}

func of(dir string, units int) *limit { return &limit{dir: dir, units: units} }

// A process that is killed returns what it had.
func TestUnitsOfADeadProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), dirVar+"="+dir)
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.StdinPipe(); err != nil { // open until it is killed
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	if n, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
	l := of(dir, 2)
	if taken, err := l.take(t, 2); taken != 0 || err != nil {
		t.Errorf("took %d units that another process has, %v", taken, err)
	}
	entered := make(chan error, 1)
	go func() { entered <- l.enter(t, 1) }()
	select {
	case err := <-entered:
		t.Fatalf("entered while another process has all, %v", err)
	case <-time.After(5 * pollInterval):
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait()
	if err := <-entered; err != nil {
		t.Error(err)
	}
}

// Tests never have more units than there are, those that have some do not wait, and none waits for ever.
func TestManyTests(t *testing.T) {
	l, running := of(t.TempDir(), 3), atomic.Int32{}
	t.Run("all", func(t *testing.T) {
		for _, name := range strings.Split("abcdefgh", "") {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				if err := l.enter(t, 2); err != nil {
					t.Fatal(err)
				}
				if n := running.Add(1); n > 1 {
					t.Errorf("%d tests run at once", n)
				}
				t.Run("part", func(t *testing.T) {
					if err := l.enter(t, 2); err != nil { // at once
						t.Fatal(err)
					}
					time.Sleep(pollInterval)
				})
				running.Add(-1)
			})
		}
	})
	if taken, err := l.take(t, 9); taken != 3 || err != nil {
		t.Errorf("%d units are left, %v", taken, err)
	}
}

// Tests that have units have parts for which go test has no room, as it lets others run first, which wait for units.
func TestPartsThatWaitForOthers(t *testing.T) {
	l := of(t.TempDir(), 1)
	t.Run("all", func(t *testing.T) {
		for n := range 2*parallel() + 1 {
			t.Run(strconv.Itoa(n), func(t *testing.T) {
				t.Parallel()
				if err := l.enter(t, 1); err != nil {
					t.Fatal(err)
				}
				t.Run("part", func(t *testing.T) { t.Parallel() })
			})
		}
	})
	if waiting, inside, guests := l.waiting.Load(), l.inside.Load(), l.guests.Load(); waiting+inside+guests != 0 {
		t.Errorf("%d tests wait, %d are inside, %d of them guests, and all have ended", waiting, inside, guests)
	}
}

func TestIdle(t *testing.T) {
	all := int32(parallel())
	for _, c := range []struct {
		waiting, inside int32
		want            int
	}{{all, 0, 0}, {all, 1, 1}, {all - 1, 1, 0}, {all - 1, 3, 2}, {0, all + 2, 2}, {all + 1, 2, 2}} {
		l := &limit{}
		l.waiting.Store(c.waiting)
		l.inside.Store(c.inside)
		if got := l.idle(); got != c.want {
			t.Errorf("%d of %d wait and %d are inside: %d are idle, want %d", c.waiting, all, c.inside, got, c.want)
		}
	}
}
