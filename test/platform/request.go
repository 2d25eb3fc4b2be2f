package platform

import (
	"strings"
	"testing"

	"mysql-broker/test/testdrive"
)

// Kinds of operations.
const (
	Provision   = "provision"
	Update      = "update"
	Bind        = "bind"
	Unbind      = "unbind"
	Deprovision = "deprovision"
	Backup      = "backup"
	Restore     = "restore" // in place
)

// Request is one that platforms send.
type Request struct {
	Kind, Method, Path string
	Body               any
	InstanceID         string
}

// Plan is one of the catalog.
type Plan struct {
	Name, ID, ServiceID string
	Async               string // in the query of a request, where the plan takes it
}

// NamedPlan is the plan of that name in the shipped catalog.
func NamedPlan(t testing.TB, name string) Plan {
	p := Plan{Name: name}
	p.ServiceID, p.ID = testdrive.Plan(t, name)
	if name == "shared-async" || p.Dedicated() {
		p.Async = "accepts_incomplete=true"
	}
	return p
}

// Dedicated reports whether the plan's instances have servers of their own.
func (p Plan) Dedicated() bool { return strings.HasPrefix(p.Name, "dedicated") }

func InstancePath(id string) string { return "/v2/service_instances/" + id }

func BindingPath(instance, id string) string {
	return InstancePath(instance) + "/service_bindings/" + id
}

// ids is the query of a DELETE.
func (p Plan) ids() string { return "?service_id=" + p.ServiceID + "&plan_id=" + p.ID + "&" }

// Provision asks for an instance whose data is dropped when it is deleted.
func (p Plan) Provision(id string) Request {
	return p.ProvisionWith(id, map[string]any{"keep_deleted_days": 0})
}

// ProvisionWith asks for an instance with parameters.
func (p Plan) ProvisionWith(id string, parameters map[string]any) Request {
	return Request{Provision, "PUT", InstancePath(id) + "?" + p.Async, map[string]any{"service_id": p.ServiceID,
		"plan_id": p.ID, "organization_guid": "organization", "space_guid": "space", "parameters": parameters,
		"context": map[string]any{"platform": "cloudfoundry"}}, id}
}

// Clone asks for an instance with a copy of another one's data.
func (p Plan) Clone(id, of string) Request {
	return p.InBackground(p.ProvisionWith(id, map[string]any{"keep_deleted_days": 0, "clone_from": of}))
}

// Restore asks for an instance with the data of a backup.
func (p Plan) Restore(id, from string) Request {
	return p.InBackground(p.ProvisionWith(id, map[string]any{"keep_deleted_days": 0, "restore_from": from}))
}

// InBackground lets an operation go on in the background even if the plan needs that for no other.
func (p Plan) InBackground(q Request) Request {
	if p.Async == "" {
		q.Path += "accepts_incomplete=true"
	}
	return q
}

// Update changes the plan. If that moves the data, it goes on in the background.
func (p Plan) Update(id string, to Plan) Request {
	return p.InBackground(Request{Update, "PATCH", InstancePath(id) + "?" + p.Async,
		map[string]any{"service_id": p.ServiceID, "plan_id": to.ID}, id})
}

// BackUp asks for a backup.
func (p Plan) BackUp(id string) Request {
	return p.updateWith(Backup, id, map[string]any{"backup": "now"})
}

// RestoreInPlace replaces the data of an instance by those of a backup. Without a name, its id confirms that.
func (p Plan) RestoreInPlace(id, from string) Request {
	return p.updateWith(Restore, id, map[string]any{"restore_backup": from, "confirm": id})
}

func (p Plan) updateWith(kind, id string, parameters map[string]any) Request {
	return p.InBackground(Request{kind, "PATCH", InstancePath(id) + "?" + p.Async,
		map[string]any{"service_id": p.ServiceID, "plan_id": p.ID, "parameters": parameters}, id})
}

// Deprovision asks to delete an instance.
func (p Plan) Deprovision(id string) Request {
	return Request{Deprovision, "DELETE", InstancePath(id) + p.ids() + p.Async, nil, id}
}

func (p Plan) Bind(instance, id string) Request {
	return Request{Bind, "PUT", BindingPath(instance, id),
		map[string]any{"service_id": p.ServiceID, "plan_id": p.ID}, instance}
}

// Unbind asks to delete a binding.
func (p Plan) Unbind(instance, id string) Request {
	return Request{Unbind, "DELETE", BindingPath(instance, id) + p.ids(), nil, instance}
}
