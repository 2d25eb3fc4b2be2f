//go:build faults

package stage

import (
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"mysql-broker/test/audit"
	"mysql-broker/test/platform"
	"mysql-broker/test/testdrive"
)

// taskAttempts is how often a step is tried: see task.Config.
const taskAttempts = 6

// crashLoops are plans, and points of a provision at which every broker dies.
var crashLoops = [][2]string{
	{"shared-async", "before: CREATE DATABASE"},
	{"dedicated-small", "launch: process started"},
	{"shared-small", "after: CREATE DATABASE"},
	{"dedicated-small", "provision: check login: begins"},
}

// crashLoop provisions an instance with brokers that all die at the same point, each replaced by another. The task is
// given up after its attempts: it ends failed, what it made is undone, and the platform reads a sentence.
func (s *scene) crashLoop(t *testing.T, p platform.Plan, fatal string) {
	dies := func(point string) testdrive.Word {
		if point == fatal {
			return testdrive.Die
		}
		return testdrive.GoOn
	}
	x := platform.Target{Workflow: platform.Workflow{Kind: platform.Provision, Plan: p}}
	x.Instance = audit.Instance{ID: uuid.NewString(), PlanID: p.ID}
	q := x.Request()
	s.now.obey(dies)
	s.order = dies // as its heirs may die while they start
	defer func() { s.order = nil }()
	answers := s.now.Begin(q.Method, q.Path, q.Body)
	died := 0
	for !s.givenUp(t, x.Instance.ID) {
		died++
		s.inherit(t)
	}
	assert.Equal(t, taskAttempts, died, "%d brokers died", died)
	<-answers
	s.awaitEnd(t)
	r := s.now.Do(t, "GET", platform.InstancePath(x.Instance.ID)+"/last_operation?operation=provision", nil).
		Expect(t, http.StatusOK)
	assert.True(t, r.String("state") == "failed" && sentence(r.String("description")),
		"the operation ended like this: %s", r.Raw)
	s.now.obey(nil)
	x.Instance.State = audit.Failed
	s.Tell(x.Instance)
	s.Check(t, "after the task was given up")
	x.Instance.State = audit.Exists // to be deleted too
	assert.NoError(t, s.Clear(&x, s.host), "delete what has failed")
	s.Check(t, "after what had failed was deleted")
	s.ForgetGone()
	s.stopAfterFailure(t, s.now)
}

// givenUp waits until the broker dies or the task is given up, and reports whether it is.
func (s *scene) givenUp(t *testing.T, instanceID string) (givenUp bool) {
	testdrive.Eventually(t, "the broker dies, or the task is given up", func() bool {
		if s.now.alive.Err() != nil {
			return true
		}
		if err := s.Tasks.QueryRow(t.Context(), "SELECT coalesce(bool_and(phase = 'cleanup' OR state <> 'in progress'), "+
			"false) FROM task WHERE instance_id = $1", instanceID).Scan(&givenUp); err != nil {
			t.Fatal(err)
		}
		return givenUp
	})
	return givenUp
}
