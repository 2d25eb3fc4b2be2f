package soak

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"mysql-broker/test/testdrive"
)

// tenant makes instances of one plan, uses them and deletes them again, one after the other.
type tenant struct {
	*testdrive.Broker
	serviceID, planID string
	operations        *atomic.Int64 // answers so far
}

// live does with one instance everything that platforms do, including repeated requests and requests that fail.
func (n tenant) live(ctx context.Context) error {
	instance := "/v2/service_instances/" + uuid.NewString()
	binding, other := instance+"/service_bindings/"+uuid.NewString(), instance+"/service_bindings/"+uuid.NewString()
	ids := map[string]any{"service_id": n.serviceID, "plan_id": n.planID}
	provision := map[string]any{"service_id": n.serviceID, "plan_id": n.planID, "organization_guid": "o", "space_guid": "s"}
	different := map[string]any{"service_id": n.serviceID, "plan_id": n.planID, "organization_guid": "o", "space_guid": "t"}
	query := "?accepts_incomplete=true&service_id=" + n.serviceID + "&plan_id=" + n.planID
	for _, r := range []struct {
		status       int // or 202, and then as it were 200
		method, path string
		body         any
	}{
		{http.StatusNotFound, "GET", instance, nil},
		{http.StatusCreated, "PUT", instance + query, provision},
		{http.StatusOK, "PUT", instance + query, provision},
		{http.StatusConflict, "PUT", instance + query, different},
		{http.StatusOK, "GET", instance, nil},
		{http.StatusCreated, "PUT", binding, ids},
		{http.StatusOK, "PUT", binding, ids},
		{http.StatusCreated, "PUT", other, ids},
		{http.StatusOK, "GET", binding, nil},
		{http.StatusOK, "GET", instance, nil},
		{http.StatusOK, "GET", instance + "/last_operation", nil},
		{http.StatusOK, "GET", binding, nil},
		{http.StatusOK, "GET", instance, nil},
		{http.StatusOK, "GET", instance + "/last_operation", nil},
		{http.StatusBadRequest, "PUT", other + "more", map[string]any{"service_id": n.serviceID, "plan_id": "none"}},
		{http.StatusOK, "DELETE", binding + query, nil},
		{http.StatusGone, "DELETE", binding + query, nil},
		{http.StatusOK, "DELETE", instance + query, nil},
		{http.StatusGone, "DELETE", instance + query, nil},
	} {
		if err := n.ask(ctx, r.status, r.method, r.path, r.body, instance); err != nil {
			return err
		}
	}
	return nil
}

// ask fails unless this status, or 202 and then success, is what the broker answers.
func (n tenant) ask(ctx context.Context, status int, method, path string, body any, instance string) error {
	answer, err := n.SendFor(ctx, method, path, body, nil)
	n.operations.Add(1)
	if err != nil {
		return err
	}
	if answer.Status == http.StatusAccepted && status < 300 {
		return n.await(ctx, instance+"/last_operation?operation="+answer.String("operation"))
	}
	if answer.Status != status {
		return fmt.Errorf("%s %s: status %d instead of %d: %s", method, path, answer.Status, status, answer.Raw)
	}
	return nil
}

// pollInterval is how often platforms ask here.
const pollInterval = 100 * time.Millisecond

func (n tenant) await(ctx context.Context, poll string) error {
	for {
		answer, err := n.SendFor(ctx, "GET", poll, nil, nil)
		n.operations.Add(1)
		switch {
		case err != nil:
			return err
		case answer.String("state") == "succeeded":
			return nil
		case answer.String("state") != "in progress":
			return fmt.Errorf("%s: %s", poll, answer.Raw)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollInterval):
		}
	}
}

// sharedTenants is how many there are of shared servers: more than the broker has connections for.
const sharedTenants = 24

// crowd is all tenants of a broker: of shared servers, answered at once or later, and one of dedicated servers.
func crowd(t *testing.T, broker *testdrive.Broker, operations *atomic.Int64) (all []tenant) {
	t.Helper()
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
	t.Helper()
	serviceID, planID := testdrive.Plan(t, plan)
	return tenant{broker, serviceID, planID, operations}
}

// liveTogether lets all tenants live again and again while goOn says so, once at least, and then disconnects them.
func liveTogether(ctx context.Context, tenants []tenant, goOn func() bool) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var all sync.WaitGroup
	for _, n := range tenants {
		all.Go(func() {
			for again := true; again; again = goOn() {
				if err := n.live(ctx); err != nil {
					fail(err)
					return
				}
			}
		})
	}
	all.Wait()
	http.DefaultClient.CloseIdleConnections()
	err := context.Cause(ctx)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
