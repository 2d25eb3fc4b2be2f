package testdrive

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Body is the fields of a request.
type Body map[string]any

// Queries of requests by platforms that wait for the end of an operation, and by those that poll.
const (
	Sync  = ""
	Async = "?accepts_incomplete=true"
)

// Instance is a service instance, there or not.
type Instance struct {
	Platform
	ID        string
	ServiceID string
	PlanID    string
}

// NewInstance chooses an id. If there is an instance of that id when the test ends, it is deleted.
func (p Platform) NewInstance(t *testing.T, plan string) Instance {
	return p.NewInstanceCalled(t, plan, uuid.NewString())
}

// NewInstanceCalled is newInstance with an id, as it stands in a path.
func (p Platform) NewInstanceCalled(t *testing.T, plan, id string) Instance {
	i := p.OwnInstance(t, plan)
	i.ID = id
	t.Cleanup(func() { i.Remove(t) })
	return i
}

// Provisioned is newInstance and waits until there is one.
func (p Platform) Provisioned(t *testing.T, plan string, fields Body) Instance {
	i := p.NewInstance(t, plan)
	i.await(t, i.Provision(t, Async, fields), http.StatusCreated)
	return i
}

// await waits for the end of the operation that a response has begun, or expects the status of one that is over.
func (i Instance) await(t *testing.T, r Response, status int) {
	if r.Status == http.StatusAccepted {
		i.Await(t, r.String("operation"))
		return
	}
	r.Expect(t, status)
}

func (i Instance) Remove(t *testing.T) {
	r := i.Deprovision(t, Async)
	switch r.Status {
	case http.StatusAccepted:
		i.Await(t, r.String("operation"))
	case http.StatusOK, http.StatusGone:
	default:
		t.Errorf("delete the instance: %d %s", r.Status, r.Raw)
	}
}

func (i Instance) Path() string { return "/v2/service_instances/" + i.ID }

// With are the fields of every request about i, and more or others; nil values take fields away.
func (i Instance) With(fields Body) Body {
	all := Body{"service_id": i.ServiceID, "plan_id": i.PlanID}
	for name, value := range fields {
		if value == nil {
			delete(all, name)
		} else {
			all[name] = value
		}
	}
	return all
}

func (i Instance) ProvisionBody(fields Body) Body {
	all := Body{"organization_guid": "an-organization", "space_guid": "a-space"}
	maps.Copy(all, fields)
	return i.With(all)
}

func (i Instance) Provision(t *testing.T, query string, fields Body) Response {
	return i.Do(t, "PUT", i.Path()+query, i.ProvisionBody(fields))
}

// Update sends a PATCH with the service's id and these fields.
func (i Instance) Update(t *testing.T, query string, fields Body) Response {
	all := Body{"service_id": i.ServiceID}
	maps.Copy(all, fields)
	return i.Do(t, "PATCH", i.Path()+query, all)
}

func (i Instance) UpdatePlan(t *testing.T, query, plan string) Response {
	_, planID := Plan(t, plan)
	return i.Update(t, query, Body{"plan_id": planID})
}

// Deletion is the path and query of a DELETE.
func (i Instance) Deletion(path, query string) string {
	if query == Sync {
		query = "?"
	} else {
		query += "&"
	}
	return path + query + "service_id=" + i.ServiceID + "&plan_id=" + i.PlanID
}

func (i Instance) Deprovision(t *testing.T, query string) Response {
	return i.Do(t, "DELETE", i.Deletion(i.Path(), query), nil)
}

func (i Instance) Fetch(t *testing.T) Response { return i.Do(t, "GET", i.Path(), nil) }

// Poll asks about an operation; query is all that follows last_operation.
func (i Instance) Poll(t *testing.T, query string) Response {
	return i.Do(t, "GET", i.Path()+"/last_operation"+query, nil)
}

// AwaitFailure waits until an operation has ended, and fails the test unless it has failed with a description that has
// these words.
func (i Instance) AwaitFailure(t *testing.T, operation string, words ...string) {
	state, shown := i.AwaitOperation(t, i.ID, operation)
	assert.Equal(t, "failed", state, "%s: %q", operation, shown)
	for _, w := range words {
		assert.Contains(t, shown[len(shown)-1], w, operation)
	}
}

// Await returns what an operation shows until it has succeeded.
func (i Instance) Await(t *testing.T, operation string) (shown []string) {
	state, shown := i.AwaitOperation(t, i.ID, operation)
	require.Equal(t, "succeeded", state, "%s %s after %q", operation, state, shown)
	return shown
}

// Binding is a service binding, there or not.
type Binding struct {
	Instance
	BindingID string
}

func (i Instance) NewBinding() Binding { return Binding{Instance: i, BindingID: uuid.NewString()} }

// Bound is newBinding and makes it.
func (i Instance) Bound(t *testing.T, fields Body) (Binding, Credentials) {
	b := i.NewBinding()
	return b, i.Credentials(t, b.Bind(t, fields).Expect(t, http.StatusCreated))
}

func (b Binding) Path() string { return b.Instance.Path() + "/service_bindings/" + b.BindingID }

func (b Binding) Bind(t *testing.T, fields Body) Response {
	return b.Do(t, "PUT", b.Path(), b.With(fields))
}

func (b Binding) Unbind(t *testing.T) Response {
	return b.Do(t, "DELETE", b.Deletion(b.Path(), Sync), nil)
}

func (b Binding) Fetch(t *testing.T) Response { return b.Do(t, "GET", b.Path(), nil) }

// OwnInstance chooses an id. Unlike that of newInstance, the instance is the test's to delete, through whichever
// replica of the broker is alive by then.
func (p Platform) OwnInstance(t *testing.T, plan string) Instance {
	serviceID, planID := Plan(t, plan)
	return Instance{Platform: p, ID: uuid.NewString(), ServiceID: serviceID, PlanID: planID}
}

// MakeOwn makes an instance that is the test's to delete.
func (p Platform) MakeOwn(t *testing.T, plan string) Instance {
	i := p.OwnInstance(t, plan)
	i.Create(t, Body{"context": CloudFoundry}, http.StatusCreated)
	return i
}

// Via is the same instance as another replica of the broker knows it.
func (i Instance) Via(p Platform) Instance {
	i.Platform = p
	return i
}

// BeginProvision asks for the instance and returns the operation that is to make it.
func (i Instance) BeginProvision(t *testing.T) (operation string) {
	return i.Provision(t, Async, nil).Operation(t)
}

// Create waits until there is an instance. status is the response of a synchronous plan.
func (i Instance) Create(t *testing.T, fields Body, status int) {
	i.await(t, i.Provision(t, Async, fields), status)
}

// Delete waits until the instance is deleted.
func (i Instance) Delete(t *testing.T) { i.await(t, i.Deprovision(t, Async), http.StatusOK) }

// UpdateWhenFree begins to change the plan of an instance once the place where its data was before is removed.
func (i Instance) UpdateWhenFree(t *testing.T, plan string) (operation string) {
	Eventually(t, "the former place is removed", func() bool {
		r := i.UpdatePlan(t, Async, plan)
		if operation = r.String("operation"); r.Status != http.StatusAccepted {
			ExpectError(t, r, "ConcurrencyError")
		}
		return r.Status == http.StatusAccepted
	})
	return operation
}

// CloudFoundry is the context of requests from one space.
var CloudFoundry = Body{"platform": "cloudfoundry", "organization_guid": "an-organization", "space_guid": "a-space"}

// Clone begins to copy an instance.
func (i Instance) Clone(t *testing.T, of string, fields Body) Response {
	all := Body{"context": CloudFoundry, "parameters": Body{"clone_from": of}}
	maps.Copy(all, fields)
	return i.Provision(t, Async, all)
}

func (i Instance) Upgrade(t *testing.T, version string) Response {
	return i.Update(t, Async, Body{"plan_id": i.PlanID, "maintenance_info": Body{"version": version}})
}

// RestoreBackup requests a restore of a backup in place.
func (i Instance) RestoreBackup(t *testing.T, id, confirm string) Response {
	parameters := Body{"restore_backup": id}
	if confirm != "" {
		parameters["confirm"] = confirm
	}
	return i.Update(t, Async, Body{"context": Named, "parameters": parameters})
}

// Named is a context with the instance's name, as Cloud Foundry sends it.
var Named = Body{"platform": "cloudfoundry", "organization_guid": "an-organization", "space_guid": "a-space",
	"instance_name": "db"}

// BackedUp takes a backup, and returns its id.
func (i Instance) BackedUp(t *testing.T) string {
	return BackupIn(t, i.Await(t, i.BackUp(t).Operation(t)))
}

// BackupIn returns the last backup id in the description of an operation.
func BackupIn(t *testing.T, shown []string) string {
	last := shown[len(shown)-1]
	at := strings.LastIndex(last, "b_")
	require.True(t, at >= 0, "no backup is named in %q", last)
	return strings.TrimRight(strings.Fields(last[at:])[0], ".,:")
}

func (i Instance) BackUp(t *testing.T) Response {
	return i.Update(t, Async, Body{"parameters": Body{"backup": "now"}})
}

// Restored asks for an instance from a backup.
func (i Instance) Restored(t *testing.T, from string, fields Body) Response {
	all := Body{"context": CloudFoundry, "parameters": Body{"restore_from": from}}
	maps.Copy(all, fields)
	return i.Provision(t, Async, all)
}

// RestoredTo creates an instance with the data that another one had at a time.
func (i Instance) RestoredTo(t *testing.T, from string, at time.Time) Response {
	return i.Provision(t, Async, Body{"context": CloudFoundry,
		"parameters": Body{"restore_from": from, "restore_to_time": at.UTC().Format(time.RFC3339)}})
}

// RunScheduled runs a scheduled task, and waits until it has ended.
func RunScheduled(t *testing.T, ts Tasks, kind string) {
	ts.Exec(t, "INSERT INTO task (instance_id, kind, plan_id) VALUES ('', '"+kind+"', '') ON CONFLICT DO NOTHING")
	ts.Until(t, kind+" has ended",
		"SELECT NOT EXISTS (SELECT FROM task WHERE kind = '"+kind+"' AND state = 'in progress')")
}
