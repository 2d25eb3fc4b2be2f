//go:build faults

package stage

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/limits"
	"mysql-broker/test/platform"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// sample takes some of many: one of $STAGE, or all if that is not set. Which of them is up to $STAGE_SEED or, without it,
// to chance, and to the name of the test.
type sample struct{ step, n int }

// newSample has one taken of so many that the variable would take.
func newSample(t *testing.T, of int) *sample {
	step := of * number(t, "STAGE", 1)
	hash := fnv.New64()
	hash.Write([]byte(t.Name()))
	return &sample{step: step, n: rand.New(rand.NewPCG(uint64(seed(t)), hash.Sum64())).IntN(step)}
}

var chance = rand.IntN(1_000_000)

func seed(t *testing.T) int { return number(t, "STAGE_SEED", chance) }

// number reads an environment variable.
func number(t *testing.T, variable string, otherwise int) int {
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	require.True(t, err == nil && n >= 1, "%s is %q instead of a number", variable, text)
	return n
}

// take reports whether the next one is among them.
func (s *sample) take() bool {
	s.n++
	return s.n%s.step == 0
}

// pauseEach is how many points there are for each at which a broker is paused.
const pauseEach = 5

// scenes is how many brokers work at the same time, each with servers of its own.
const scenes = 2

// TestStage cuts every operation short at every point that it passes. Whatever the platform then does, an heir finishes
// the work, nothing is left over and nothing is missing. Then steps fail, and brokers die in the cleanup.
func TestStage(t *testing.T) {
	for _, of := range servers.Chosen(t, servers.AllMySQL(t)) {
		t.Run(of.Flavour, func(t *testing.T) {
			t.Parallel()
			t.Logf("STAGE_SEED=%d takes the same points", seed(t))
			free := make(chan *scene, scenes)
			for n := range scenes {
				s := newScene(t, of.Flavour, n)
				free <- s
			}
			t.Run("all", func(t *testing.T) { perform(t, free) })
			for range scenes {
				s := <-free
				s.Check(t, "at the end")
				t.Logf("%d points, %d brokers killed, %d paused, %d started", s.passed, s.killed, s.paused, s.started)
			}
		})
	}
}

// perform runs all acts, each as soon as a scene is free.
func perform(t *testing.T, free chan *scene) {
	whole := t
	act := func(name string, fn func(*testing.T, *scene)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := <-free
			defer func() { free <- s }()
			if !whole.Failed() { // what one leaves after a failure would fail all others
				fn(t, s)
			}
		})
	}
	act("connections end", expectSilence)
	for _, f := range platform.Workflows(t) {
		act(f.String(), func(t *testing.T, s *scene) { s.interrupt(t, f) })
	}
	for _, f := range unrequested(t) {
		act(f.String(), func(t *testing.T, s *scene) { s.interruptUnrequested(t, f) })
	}
	for n, moment := range []string{"begins", "done"} {
		act("expiry that fails when it "+moment, func(t *testing.T, s *scene) {
			s.failExpiry(t, unrequested(t)[1], moment, 1+n*taskAttempts)
		})
	}
	some := newSample(t, 1)
	for n, f := range failures(t) {
		if !some.take() && !f.always() {
			continue
		}
		for _, atOnce := range []bool{false, true} {
			if some.step == 1 || ((n+seed(t))%2 == 0) == atOnce { // with one seed in two where not all is done
				act(fmt.Sprintf("%s, at once: %t", f, atOnce), func(t *testing.T, s *scene) { s.fail(t, f, atOnce) })
			}
		}
	}
}

// expectSilence expects that the connections of a broker end when it is killed, although it closes none: it opens all of
// them through its cutter.
func expectSilence(t *testing.T, s *scene) {
	open, err := s.connections(t.Context())
	require.True(t, err == nil && len(open) >= 2, "a broker that works has the connections %q, %v", open, err)
	s.now.kill()
	s.inherit(t)
}

// interrupt kills brokers at the points of an operation, and pauses others.
func (s *scene) interrupt(t *testing.T, f platform.Workflow) {
	kills, pauses := newSample(t, 1), newSample(t, pauseEach)
	points := platform.InBoth(s.cut(t, f, platform.Point{}, false), s.cut(t, f, platform.Point{}, false))
	t.Logf("%d points: %v", len(points), points)
	s.passed += len(points)
	for n, p := range points {
		if kills.take() {
			s.cut(t, f, p, n%2 == 0)
			s.killed++
		}
		if pausable(f) && !p.OfLauncher() && pauses.take() {
			s.pause(t, f, p, n%2 == 1)
			s.paused++
		}
	}
}

func (s *scene) interruptUnrequested(t *testing.T, f platform.Workflow) {
	kills := newSample(t, 1)
	points := platform.InBoth(s.cutUnrequested(t, f, platform.Point{}), s.cutUnrequested(t, f, platform.Point{}))
	t.Logf("%d points: %v", len(points), points)
	s.passed += len(points)
	for _, p := range points {
		if kills.take() {
			s.cutUnrequested(t, f, p)
			s.killed++
		}
	}
}

// cut carries out an operation, whose broker is killed at a point, and audits the result. It returns the points that
// were passed.
func (s *scene) cut(t *testing.T, f platform.Workflow, at platform.Point, mitigate bool) []platform.Point {
	what := fmt.Sprintf("%s, killed at %v", f, at)
	x, err := s.Prepare(t.Context(), f, s.host)
	require.NoError(t, err, what)
	victim := s.now
	j := platform.NewJourney(at, func() testdrive.Word { return testdrive.Die })
	learned := make(chan struct{}) // the platform has the new address, which no broker that dies now would tell it
	victim.obey(func(point string) testdrive.Word {
		word := j.Pass(point)
		if word == testdrive.Die && x.Moves() && strings.HasSuffix(point, ": ended as succeeded") {
			<-learned
		}
		return word
	})
	err = s.carryOut(t, &x, mitigate)
	close(learned)
	assert.NoError(t, err, what)
	s.outlive(t, victim, j, at, what)
	s.Check(t, "after "+what+", or after what was before it was deleted")
	s.ForgetGone()
	s.clear(t, &x)
	s.stopAfterFailure(t, victim)
	return j.Points()
}

// outlive waits until the broker is killed at the end of its journey and its heir has no task in progress or, if the
// broker is to live, until its task has ended.
func (s *scene) outlive(t *testing.T, victim *broker, j *platform.Journey, at platform.Point, what string) {
	t.Helper()
	select { // the last point comes after the end is recorded
	case <-victim.alive.Done():
		if s.now == victim {
			s.inherit(t)
		}
	case <-j.Ended:
	case <-time.After(limits.Stuck):
		t.Errorf("%s: the task does not end", what)
	}
	victim.obey(nil)
	s.awaitEnd(t)
	assert.False(t, at != (platform.Point{}) && s.now == victim, "%s: the broker did not come there", what)
}
