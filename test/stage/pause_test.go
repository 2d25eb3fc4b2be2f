//go:build faults

package stage

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/limits"
	"mysql-broker/test/platform"
	"mysql-broker/test/testdrive"
)

// pausable reports whether brokers are paused in an operation. One on a dedicated server holds the server while it is
// paused, and nobody else goes on.
func pausable(f platform.Workflow) bool {
	return !f.Plan.Dedicated() && (f.Plan.Async == "" || f.Copies())
}

// pause is the word of the journey to the one who leads it.
const pause testdrive.Word = "pause"

// hold pauses the broker at the end of the journey, and closes paused. It goes on until it needs a server: a statement
// that follows the point is on its way, and arrives when the broker thaws.
func (b *broker) hold(j *platform.Journey) (paused chan struct{}) {
	paused = make(chan struct{})
	b.obey(func(point string) testdrive.Word {
		if j.Pass(point) == pause {
			b.cut.freeze()
			close(paused)
		}
		return testdrive.GoOn
	})
	return paused
}

// pause carries out an operation, whose broker is paused at a point. Another one takes over, finishes the work, and
// deletes the outcome. Nothing that the first one still does when it goes on may leave anything.
func (s *scene) pause(t *testing.T, f platform.Workflow, at platform.Point, mitigate bool) {
	t.Helper()
	what := fmt.Sprintf("%s, paused at %v", f, at)
	x, err := s.Prepare(t.Context(), f, s.host)
	require.NoError(t, err, what)
	victim, err := s.start()
	require.NoError(t, err)
	j := platform.NewJourney(at, func() testdrive.Word { return pause })
	paused := victim.hold(j)
	q := x.Request()
	answers := victim.Begin(q.Method, q.Path, q.Body)
	select {
	case <-paused:
	case <-j.Ended:
		if j.Points()[len(j.Points())-1] != at { // else it is paused there
			t.Fatalf("%s: the broker did not come there", what)
		}
		<-paused
	case <-time.After(limits.Stuck):
		t.Fatalf("%s: the task does not end", what)
	}
	// As the clock of a process that is stopped goes on, too, it knows when others take over that its leases have expired.
	victim.expireLeases()
	testdrive.ExpireLeasesOfHolder(t, s.Tasks, x.Instance.ID)
	assert.NoError(t, s.finish(t, &x, mitigate), what)
	s.awaitEnd(t)
	s.Check(t, "after "+what)
	s.clear(t, &x)
	victim.cut.thaw()
	testdrive.Receive(t, answers, what+": the paused broker answers")
	s.close(victim)
	s.awaitEnd(t)
	s.Check(t, "after "+what+", when it went on")
	s.ForgetGone()
	s.stopAfterFailure(t, victim)
}
