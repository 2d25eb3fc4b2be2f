// Package soak keeps brokers busy and looks for what piles up in them. The tests of this package do not run side by side.
package soak

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"mysql-broker/test/platform"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// tenant makes instances of one plan, uses them and deletes them again, one after the other.
type tenant struct {
	*platform.World
	plan platform.Plan
}

// live does with one instance everything that platforms do, including repeated requests and requests that fail.
func (n tenant) live() error {
	id, binding, other := uuid.NewString(), uuid.NewString(), uuid.NewString()
	different, unknown := n.plan.Provision(id), n.plan.Bind(id, other+"more")
	different.Body.(map[string]any)["space_guid"] = "another"
	unknown.Body.(map[string]any)["plan_id"] = "none"
	get := func(path string) platform.Request { return platform.Request{Method: http.MethodGet, Path: path} }
	instance, bound := get(platform.InstancePath(id)), get(platform.BindingPath(id, binding))
	operation := get(instance.Path + "/last_operation")
	for _, r := range []struct {
		status int // or 202, and then as it were 200
		platform.Request
	}{
		{http.StatusNotFound, instance},
		{http.StatusCreated, n.plan.Provision(id)},
		{http.StatusOK, n.plan.Provision(id)},
		{http.StatusConflict, different},
		{http.StatusOK, instance},
		{http.StatusCreated, n.plan.Bind(id, binding)},
		{http.StatusOK, n.plan.Bind(id, binding)},
		{http.StatusCreated, n.plan.Bind(id, other)},
		{http.StatusOK, bound},
		{http.StatusOK, instance},
		{http.StatusOK, operation},
		{http.StatusBadRequest, unknown},
		{http.StatusOK, n.plan.Unbind(id, binding)},
		{http.StatusGone, n.plan.Unbind(id, binding)},
		{http.StatusOK, n.plan.Deprovision(id)},
		{http.StatusGone, n.plan.Deprovision(id)},
	} {
		if err := n.ask(r.status, r.Request); err != nil {
			return err
		}
	}
	return nil
}

// ask fails unless this status, or 202 and then success, is what the broker answers.
func (n tenant) ask(status int, q platform.Request) error {
	r, err := n.Send(q.Method, q.Path, q.Body)
	if err != nil || r.Status == status {
		return err
	}
	if r.Status != http.StatusAccepted || status >= 300 {
		return fmt.Errorf("%s %s: status %d instead of %d: %s", q.Method, q.Path, r.Status, status, r.Raw)
	}
	_, err = n.Conclude(q, r)
	return err
}

// sharedTenants is how many there are of shared servers: more than the broker has connections for.
const sharedTenants = 24

// crowd is all tenants of a broker: of shared servers, answered at once or later, and one of dedicated servers.
func crowd(t *testing.T, broker *testdrive.Broker, operations *atomic.Int64) (all []tenant) {
	for i := range sharedTenants {
		plan := "shared-small"
		if i%4 == 0 {
			plan = "shared-async"
		}
		all = append(all, newTenant(t, broker, plan, operations))
	}
	return append(all, newTenant(t, broker, "dedicated-small", operations))
}

func newTenant(t *testing.T, broker *testdrive.Broker, plan string, operations *atomic.Int64) tenant {
	send := func(method, path string, body any) (testdrive.Response, error) {
		defer operations.Add(1)
		return broker.Send(method, path, body, nil)
	}
	return tenant{&platform.World{Send: send, PollEach: 100 * time.Millisecond}, platform.NamedPlan(t, plan)}
}

// liveTogether lets all tenants live again and again while goOn says so, once at least, and then disconnects them.
func liveTogether(tenants []tenant, goOn func() bool) error {
	defer http.DefaultClient.CloseIdleConnections()
	all, ctx := errgroup.WithContext(context.Background())
	for _, n := range tenants {
		all.Go(func() error {
			for again := true; again && ctx.Err() == nil; again = goOn() {
				if err := n.live(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return all.Wait()
}

func TestMain(m *testing.M) { servers.Main(m) }
