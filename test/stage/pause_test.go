//go:build faults

package stage

import (
	"fmt"
	"testing"
	"time"

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

// pausedTTL is how long the leases of a broker last that is to be paused. Its own clock goes on meanwhile, as that of a
// process that is stopped: when others take over, it knows that its lease has run out.
const pausedTTL = 4 * time.Second

// pause carries out an operation, whose broker is paused at a point. Another one takes over, finishes the work, and
// deletes the outcome. Nothing that the first one still does when it goes on may leave anything.
func (s *scene) pause(t *testing.T, f platform.Workflow, at platform.Point, mitigate bool) {
	t.Helper()
	what := fmt.Sprintf("%s, paused at %v", f, at)
	x, err := s.Prepare(t.Context(), f, s.host)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	victim, err := s.start(pausedTTL)
	if err != nil {
		t.Fatal(err)
	}
	j := platform.NewJourney(at, true, func() testdrive.Word { return pause })
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
	testdrive.Eventually(t, limits.Stuck, "the lease runs out", func() (ended bool) {
		err := s.Tasks.QueryRow(t.Context(), `SELECT NOT EXISTS (SELECT FROM task
			WHERE state = 'in progress' AND lease_until > now())`).Scan(&ended)
		return err == nil && ended
	})
	if err := s.finish(t, &x, mitigate); err != nil {
		t.Errorf("%s: %v", what, err)
	}
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
