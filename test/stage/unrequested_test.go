//go:build faults

package stage

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/bindings"
	"mysql-broker/test/audit"
	"mysql-broker/test/platform"
	"mysql-broker/test/testdrive"
)

// Kinds of tasks that no platform requests: the end of an expired binding, and a new password after a leak.
const (
	expire = "expire"
	rotate = "rotate"
)

// unrequested are the tasks that no platform requests.
func unrequested(t *testing.T) []platform.Workflow {
	p := platform.NamedPlan(t, "shared-small")
	return []platform.Workflow{
		{Kind: expire, Plan: p},
		{Kind: expire, Plan: p, View: true},
		{Kind: rotate, Plan: p, View: true},
	}
}

// cutUnrequested has a binding expire or passwords replaced, kills the broker at a point, and audits the result. It
// returns the points that were passed.
func (s *scene) cutUnrequested(t *testing.T, f platform.Workflow, at platform.Point) []platform.Point {
	when := fmt.Sprintf("after %s, killed at %v", f, at)
	x := s.prepareUnrequested(t, f)
	victim := s.now
	j := platform.NewJourney(at, func() testdrive.Word { return testdrive.Die })
	var passed sync.Map
	victim.obey(func(point string) testdrive.Word {
		part, _, _ := strings.Cut(point, ": ")
		if part != f.Kind && part != "before" && part != "after" {
			return testdrive.GoOn
		}
		if _, before := passed.LoadOrStore(point, true); before { // by another task of the same kind
			return testdrive.GoOn
		}
		return j.Pass(point)
	})
	if f.Kind == expire {
		s.expire(t, &x)
	} else {
		s.rotate(t, x)
	}
	s.outlive(t, victim, j, at, when)
	if f.Kind == rotate {
		s.learnOfRotation(t, &x)
	}
	s.Check(t, when)
	s.learnOfEnd(t, &x, when)
	s.stopAfterFailure(t, victim)
	return j.Points()
}

// prepareUnrequested makes an instance with a binding, on whose view another one depends.
func (s *scene) prepareUnrequested(t *testing.T, f platform.Workflow) platform.Target {
	x := platform.Target{Workflow: f, Instance: audit.Instance{ID: uuid.NewString(), PlanID: f.Plan.ID}}
	require.NoError(t, s.Make(f.Plan, false, &x.Instance))
	var err error
	x.Binding, err = s.BindWith(f.Plan, x.Instance.ID, map[string]any{"ttl": "8h"})
	require.NoError(t, err)
	x.Before, err = s.Bind(f.Plan, x.Instance.ID)
	require.NoError(t, err)
	x.Instance.Note = uuid.NewString()
	require.NoError(t, platform.WriteNote(t.Context(), x.Binding.Credentials, x.Instance.Note))
	if f.View {
		require.NoError(t, platform.DefineView(t.Context(), x.Binding.Credentials))
	}
	s.Tell(x.Instance)
	return x
}

// learnOfRotation fetches the new passwords, and expects that the old one works no more.
func (s *scene) learnOfRotation(t *testing.T, x *platform.Target) {
	leaked := x.Binding.Credentials
	for _, b := range []*audit.Binding{&x.Binding, &x.Before} {
		r, err := s.now.send("GET", platform.BindingPath(x.Instance.ID, b.ID), nil)
		require.NoError(t, err)
		b.Credentials, err = audit.ReadCredentials(r.Body["credentials"])
		require.NoError(t, err, "fetch the binding: %d %s", r.Status, r.Raw)
		s.TellBinding(*b)
	}
	db, err := leaked.Open()
	require.NoError(t, err)
	defer db.Close()
	assert.False(t, db.PingContext(t.Context()) == nil || leaked == x.Binding.Credentials, "the old password still works")
}

// expire ends the time of the binding, and waits until the platform does not find it any more.
func (s *scene) expire(t *testing.T, x *platform.Target) {
	_, err := s.Tasks.Exec(t.Context(), "UPDATE binding SET expires_at = now() WHERE id = $1", x.Binding.ID)
	require.NoError(t, err)
	s.survive(t, "the binding is gone", func() bool {
		r, err := s.now.send("GET", platform.BindingPath(x.Instance.ID, x.Binding.ID), nil)
		return err == nil && r.Status == http.StatusNotFound
	})
	s.survive(t, "the binding has ended", func() (ended bool) { // the platform is told before
		if _, err := s.hasten(t.Context()); err != nil {
			return false
		}
		err := s.Tasks.QueryRow(t.Context(), "SELECT NOT EXISTS (SELECT FROM binding WHERE id = $1)", x.Binding.ID).
			Scan(&ended)
		return err == nil && ended
	})
	x.Binding.State = audit.Gone
	s.TellBinding(x.Binding)
}

// rotate has an operator replace the passwords of the instance's bindings.
func (s *scene) rotate(t *testing.T, x platform.Target) {
	for _, b := range []audit.Binding{x.Binding, x.Before} {
		_, err := bindings.RotateBinding(t.Context(), s.records, nil, b.InstanceID, b.ID)
		require.NoError(t, err)
	}
	s.survive(t, "the passwords are replaced", func() (ended bool) {
		err := s.Tasks.QueryRow(t.Context(), "SELECT NOT EXISTS (SELECT FROM task WHERE state = 'in progress')").Scan(&ended)
		return err == nil && ended
	})
}

// survive waits for a condition, and replaces the broker if it is killed meanwhile.
func (s *scene) survive(t *testing.T, what string, condition func() bool) {
	testdrive.Eventually(t, what, func() bool {
		if s.now.alive.Err() != nil {
			s.inherit(t)
		}
		return condition()
	})
}

// learnOfEnd has the platform learn at its own unbind that the binding has expired, and deletes the instance.
func (s *scene) learnOfEnd(t *testing.T, x *platform.Target, when string) {
	if x.Kind == expire {
		for _, status := range []int{http.StatusOK, http.StatusGone} {
			q := x.Plan.Unbind(x.Instance.ID, x.Binding.ID)
			got, err := s.Run(q)
			assert.True(t, err == nil && got.Status == status,
				"%s, the unbind was answered %d: %s %v", when, got.Status, got.Raw, err)
		}
	}
	assert.NoError(t, s.Delete(x), when)
	s.Check(t, when+", when the instance was deleted")
	s.ForgetGone()
}

// taskAttempts is how often a step is tried: see task.Config.
const taskAttempts = 6

// failExpiry has the step that ends an expired account fail so many times. After taskAttempts, the task is given up, and
// the brokers record another one.
func (s *scene) failExpiry(t *testing.T, f platform.Workflow, moment string, times int) {
	when := fmt.Sprintf("after the end of an account that failed %d times when it %s", times, moment)
	x := s.prepareUnrequested(t, f)
	var left atomic.Int32
	left.Store(int32(times))
	s.now.obey(func(point string) testdrive.Word {
		if point != "expire: end account: "+moment || left.Add(-1) < 0 {
			return testdrive.GoOn
		}
		return testdrive.Fail
	})
	s.expire(t, &x)
	s.now.obey(nil)
	assert.LessOrEqual(t, left.Load(), int32(0), "how often the step did not fail")
	s.awaitEnd(t)
	s.Check(t, when)
	s.learnOfEnd(t, &x, when)
	s.stopAfterFailure(t, s.now)
}
