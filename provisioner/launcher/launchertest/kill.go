package launchertest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/test/limits"
)

// childVar holds the order for a child process that performs one launcher call and is killed during that call.
const childVar = "LAUNCHERTEST_CHILD"

// order is a launcher call for a child process.
type order struct {
	Place  string // see Place.Child
	Method string // "launch", "resize" or "destroy"
	Spec   launcher.Spec
}

// Child performs the call that the suite has started this process for, and returns the exit status. ordered is false if
// this process is not such a child. TestMain calls Child first. open opens the launcher of a place; see Place.Child.
func Child(open func(place string) (launcher.Launcher, error)) (status int, ordered bool) {
	text := os.Getenv(childVar)
	if text == "" {
		return 0, false
	}
	if err := obey(text, open); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1, true
	}
	return 0, true
}

func obey(text string, open func(place string) (launcher.Launcher, error)) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	l, err := open(o.Place)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), limits.Stuck)
	defer cancel()
	report := func(progress string) { fmt.Println(progress) }
	switch o.Method {
	case "launch":
		_, err = tryLaunch(ctx, l, o.Spec, report)
	case "resize":
		_, err = tryResize(ctx, l, o.Spec, report)
	default:
		err = l.Destroy(ctx, o.Spec.ID)
	}
	return err
}

// killed starts a child process for a call, and kills it a given time after the given report; report 0 is the start. It
// returns the number of reports.
func killed(t *testing.T, o order, report int, after time.Duration) (reports int) {
	text, err := json.Marshal(o)
	require.NoError(t, err)
	child := exec.CommandContext(bounded(t), os.Args[0], "-test.run=^$") // runs no test if TestMain does not call Child
	child.Env = append(os.Environ(), childVar+"="+string(text))
	child.Stderr = t.Output()
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	kill := func() { time.AfterFunc(after, func() { _ = child.Process.Kill() }) } // it may have exited
	if report == 0 {
		kill()
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if reports++; reports == report {
			kill()
		}
	}
	_ = child.Wait() // killed, or finished before that
	return reports
}

// A broker may be killed at any time during a call. The next broker repeats the call and reaches the same result.
func testKilled(t *testing.T, p Place) {
	if p.Child == "" {
		t.Skip("there is no process to kill")
	}
	// Between two reports, and during a removal, there are several moments to be killed at.
	pauses := []time.Duration{0, 20 * time.Millisecond, 200 * time.Millisecond}
	heir := p.Open(t)
	for n := 1; ; n++ {
		spec := p.spec(fmt.Sprint("killed", n))
		reports := killed(t, order{p.Child, "launch", spec}, n, pauses[n%len(pauses)])
		lets(t, spec, launch(t, heir, spec))
		larger := spec
		larger.MemoryMB = p.MemoryMB[1]
		reports = max(reports, killed(t, order{p.Child, "resize", larger}, n, pauses[(n+1)%len(pauses)]))
		end, err := tryResize(bounded(t), heir, larger, nobody)
		require.NoError(t, err, "resize after a broker was killed at report %d", n)
		lets(t, larger, end)
		killed(t, order{p.Child, "destroy", spec}, 0, time.Duration(n)*10*time.Millisecond)
		destroy(t, heir, spec.ID)
		assert.NotContains(t, ids(t, heir), spec.ID, "destroyed after a broker was killed")
		if reports < n { // neither call makes that many reports
			return
		}
	}
}
