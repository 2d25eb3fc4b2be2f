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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
	require.NoError(t, err)
	if _, err := other.StdinPipe(); err != nil { // open until it is killed
		t.Fatal(err)
	}
	require.NoError(t, other.Start())
	n, err := out.Read(make([]byte, 8))
	require.NoError(t, err, "%d bytes", n)
	l := of(dir, 2)
	taken, err := l.take(t, 2)
	assert.True(t, taken == 0 && err == nil, "took %d units that another process has, %v", taken, err)
	entered := make(chan error, 1)
	go func() { entered <- l.enter(t, 1) }()
	select {
	case err := <-entered:
		t.Fatalf("entered while another process has all, %v", err)
	case <-time.After(5 * pollInterval):
	}
	require.NoError(t, other.Process.Kill())
	_ = other.Wait()
	assert.NoError(t, <-entered)
}

// Tests never have more units than there are, those that have some do not wait, and none waits for ever.
func TestManyTests(t *testing.T) {
	l, running := of(t.TempDir(), 3), atomic.Int32{}
	t.Run("all", func(t *testing.T) {
		for _, name := range strings.Split("abcdefgh", "") {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				require.NoError(t, l.enter(t, 2))
				n := running.Add(1)
				assert.True(t, n <= 1, "%d tests run at once", n)
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
	taken, err := l.take(t, 9)
	assert.True(t, taken == 3 && err == nil, "%d units are left, %v", taken, err)
}

// Tests that have units have parts for which go test has no room, as it lets others run first, which wait for units.
func TestPartsThatWaitForOthers(t *testing.T) {
	l := of(t.TempDir(), 1)
	t.Run("all", func(t *testing.T) {
		for n := range 2*parallel() + 1 {
			t.Run(strconv.Itoa(n), func(t *testing.T) {
				t.Parallel()
				require.NoError(t, l.enter(t, 1))
				t.Run("part", func(t *testing.T) { t.Parallel() })
			})
		}
	})
	waiting, inside, guests := l.waiting.Load(), l.inside.Load(), l.guests.Load()
	assert.True(t, waiting+inside+guests == 0,
		"%d tests wait, %d are inside, %d of them guests, and all have ended", waiting, inside, guests)
}
