package e2e

import (
	"net/http"
	"testing"

	"github.com/google/uuid"

	"mysql-broker/test/testdrive"
)

// body is the fields of a request.
type body map[string]any

// Queries of requests by platforms that wait for the end of an operation, and by those that poll.
const (
	now   = ""
	later = "?accepts_incomplete=true"
)

// instance is a service instance, there or not.
type instance struct {
	platform
	id        string
	serviceID string
	planID    string
}

// newInstance chooses an id. If there is an instance of that id when the test ends, it is deleted.
func (p platform) newInstance(t *testing.T, plan string) instance {
	t.Helper()
	return p.newInstanceCalled(t, plan, uuid.NewString())
}

// newInstanceCalled is newInstance with an id, as it stands in a path.
func (p platform) newInstanceCalled(t *testing.T, plan, id string) instance {
	t.Helper()
	i := instance{platform: p, id: id}
	i.serviceID, i.planID = testdrive.Plan(t, plan)
	t.Cleanup(func() { i.remove(t) })
	return i
}

// provisioned is newInstance and waits until there is one.
func (p platform) provisioned(t *testing.T, plan string, fields body) instance {
	t.Helper()
	i := p.newInstance(t, plan)
	r := i.provision(t, later, fields)
	if r.Status == http.StatusAccepted {
		i.await(t, r.String("operation"))
		return i
	}
	r.Expect(t, http.StatusCreated)
	return i
}

func (i instance) remove(t *testing.T) {
	r := i.deprovision(t, later)
	switch r.Status {
	case http.StatusAccepted:
		i.await(t, r.String("operation"))
	case http.StatusOK, http.StatusGone:
	default:
		t.Errorf("delete the instance: %d %s", r.Status, r.Raw)
	}
}

func (i instance) path() string { return "/v2/service_instances/" + i.id }

// with are the fields of every request about i, and more or others; nil values take fields away.
func (i instance) with(fields body) body {
	all := body{"service_id": i.serviceID, "plan_id": i.planID}
	for name, value := range fields {
		if value == nil {
			delete(all, name)
		} else {
			all[name] = value
		}
	}
	return all
}

func (i instance) provisionBody(fields body) body {
	all := body{"organization_guid": "an-organization", "space_guid": "a-space"}
	for name, value := range fields {
		all[name] = value
	}
	return i.with(all)
}

func (i instance) provision(t *testing.T, query string, fields body) testdrive.Response {
	t.Helper()
	return i.Do(t, "PUT", i.path()+query, i.provisionBody(fields))
}

// update sends a PATCH with the service's id and these fields.
func (i instance) update(t *testing.T, query string, fields body) testdrive.Response {
	t.Helper()
	all := body{"service_id": i.serviceID}
	for name, value := range fields {
		all[name] = value
	}
	return i.Do(t, "PATCH", i.path()+query, all)
}

func (i instance) updatePlan(t *testing.T, query, plan string) testdrive.Response {
	t.Helper()
	_, planID := testdrive.Plan(t, plan)
	return i.update(t, query, body{"plan_id": planID})
}

// deletion is the path and query of a DELETE.
func (i instance) deletion(path, query string) string {
	if query == now {
		query = "?"
	} else {
		query += "&"
	}
	return path + query + "service_id=" + i.serviceID + "&plan_id=" + i.planID
}

func (i instance) deprovision(t *testing.T, query string) testdrive.Response {
	t.Helper()
	return i.Do(t, "DELETE", i.deletion(i.path(), query), nil)
}

func (i instance) fetch(t *testing.T) testdrive.Response {
	t.Helper()
	return i.Do(t, "GET", i.path(), nil)
}

// poll asks about an operation; query is all that follows last_operation.
func (i instance) poll(t *testing.T, query string) testdrive.Response {
	t.Helper()
	return i.Do(t, "GET", i.path()+"/last_operation"+query, nil)
}

// await returns what an operation shows until it has succeeded.
func (i instance) await(t *testing.T, operation string) (shown []string) {
	t.Helper()
	state, shown := i.AwaitOperation(t, i.id, operation)
	if state != "succeeded" {
		t.Fatalf("%s %s after %q", operation, state, shown)
	}
	return shown
}

// binding is a service binding, there or not.
type binding struct {
	instance
	bindingID string
}

func (i instance) newBinding() binding { return binding{instance: i, bindingID: uuid.NewString()} }

// bound is newBinding and makes it.
func (i instance) bound(t *testing.T, fields body) (binding, credentials) {
	t.Helper()
	b := i.newBinding()
	return b, i.credentials(t, b.bind(t, fields).Expect(t, http.StatusCreated))
}

func (b binding) path() string { return b.instance.path() + "/service_bindings/" + b.bindingID }

func (b binding) bind(t *testing.T, fields body) testdrive.Response {
	t.Helper()
	return b.Do(t, "PUT", b.path(), b.with(fields))
}

func (b binding) unbind(t *testing.T) testdrive.Response {
	t.Helper()
	return b.Do(t, "DELETE", b.deletion(b.path(), now), nil)
}

func (b binding) fetch(t *testing.T) testdrive.Response {
	t.Helper()
	return b.Do(t, "GET", b.path(), nil)
}
