package chaos

import (
	"strings"
	"testing"

	"mysql-broker/test/testdrive"
)

// Kinds of operations.
const (
	provision   = "provision"
	update      = "update"
	bind        = "bind"
	unbind      = "unbind"
	deprovision = "deprovision"
	backup      = "backup"
	restore     = "restore" // in place
)

// request is one that platforms send.
type request struct {
	kind, method, path    string
	body                  any
	instanceID, bindingID string // bindingID is "" for operations on the instance
}

// plan is one of the catalog.
type plan struct {
	name, id, serviceID string
	async               string // in the query of a request, where the plan takes it
}

func planNamed(t testing.TB, name string) plan {
	t.Helper()
	p := plan{name: name}
	p.serviceID, p.id = testdrive.Plan(t, name)
	if name == "shared-async" || p.dedicated() {
		p.async = "accepts_incomplete=true"
	}
	return p
}

func (p plan) dedicated() bool { return strings.HasPrefix(p.name, "dedicated") }

func instancePath(id string) string { return "/v2/service_instances/" + id }
func bindingPath(instance, id string) string {
	return instancePath(instance) + "/service_bindings/" + id
}

// ids is the query of a DELETE.
func (p plan) ids() string { return "?service_id=" + p.serviceID + "&plan_id=" + p.id + "&" }

// provision asks for an instance whose data are dropped when it is deleted.
func (p plan) provision(id string) request {
	return p.provisionWith(id, map[string]any{"keep_deleted_days": 0})
}

// undelete asks for an instance with the data of a deleted one.
func (p plan) undelete(id, of string) request {
	return p.provisionWith(id, map[string]any{"undelete": of})
}

func (p plan) provisionWith(id string, parameters map[string]any) request {
	return request{provision, "PUT", instancePath(id) + "?" + p.async, map[string]any{"service_id": p.serviceID,
		"plan_id": p.id, "organization_guid": "organization", "space_guid": "space", "parameters": parameters,
		"context": map[string]any{"platform": "cloudfoundry"}}, id, ""}
}

// clone asks for an instance with a copy of another one's data.
func (p plan) clone(id, of string) request {
	return p.inBackground(p.provisionWith(id, map[string]any{"keep_deleted_days": 0, "clone_from": of}))
}

// restore asks for an instance with the data of a backup.
func (p plan) restore(id, from string) request {
	return p.inBackground(p.provisionWith(id, map[string]any{"keep_deleted_days": 0, "restore_from": from}))
}

// inBackground lets an operation go on in the background even if the plan needs that for no other.
func (p plan) inBackground(q request) request {
	if p.async == "" {
		q.path += "accepts_incomplete=true"
	}
	return q
}

// update changes the plan. If that moves the data, it goes on in the background.
func (p plan) update(id string, to plan) request {
	q := request{update, "PATCH", instancePath(id) + "?" + p.async,
		map[string]any{"service_id": p.serviceID, "plan_id": to.id}, id, ""}
	if p.dedicated() != to.dedicated() {
		q = p.inBackground(q)
	}
	return q
}

func (p plan) backUp(id string) request {
	return p.updateWith(backup, id, map[string]any{"backup": "now"})
}

// restoreInPlace replaces the data of an instance by those of a backup. Without a name, its id confirms that.
func (p plan) restoreInPlace(id, from string) request {
	return p.updateWith(restore, id, map[string]any{"restore_backup": from, "confirm": id})
}

func (p plan) updateWith(kind, id string, parameters map[string]any) request {
	return p.inBackground(request{kind, "PATCH", instancePath(id) + "?" + p.async,
		map[string]any{"service_id": p.serviceID, "plan_id": p.id, "parameters": parameters}, id, ""})
}

func (p plan) deprovision(id string) request {
	return request{deprovision, "DELETE", instancePath(id) + p.ids() + p.async, nil, id, ""}
}

func (p plan) bind(instance, id string) request {
	return request{bind, "PUT", bindingPath(instance, id),
		map[string]any{"service_id": p.serviceID, "plan_id": p.id}, instance, id}
}

func (p plan) unbind(instance, id string) request {
	return request{unbind, "DELETE", bindingPath(instance, id) + p.ids(), nil, instance, id}
}
