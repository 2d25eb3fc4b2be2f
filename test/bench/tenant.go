package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
)

// operation is one of a service instance's life.
type operation struct {
	name   string
	do     func() error
	before func() error // not measured; may be nil
}

// Names of the operations, in the order of a life.
var operationNames = []string{"provision", "bind", "unbind", "deprovision"}

// tenant creates and deletes instances, one after the other: through the broker or, for comparison, without it.
type tenant interface {
	life() []operation
	// account is the account of the current life, between bind and unbind.
	account() (user, password string, err error)
	close(ctx context.Context) error
}

// took collects how long operations took, by name; "cycle" is a whole life.
type took map[string][]time.Duration

const cycle = "cycle"

// live runs one life of a tenant.
func (t took) live(who tenant) error {
	var whole time.Duration
	for _, o := range who.life() {
		if o.before != nil {
			if err := o.before(); err != nil {
				return fmt.Errorf("before %s: %w", o.name, err)
			}
		}
		since := time.Now()
		if err := o.do(); err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
		d := time.Since(since)
		t[o.name] = append(t[o.name], d)
		whole += d
	}
	t[cycle] = append(t[cycle], whole)
	return nil
}

func (t took) add(more took) {
	for name, durations := range more {
		t[name] = append(t[name], durations...)
	}
}

// brokerTenant sends the requests that Cloud Foundry sends.
type brokerTenant struct {
	*client
	provisionBody, bindBody, query string

	binding string // path of the current life's binding
}

func (b *bench) newBrokerTenant(ctx context.Context, r *broker) (tenant, error) {
	serviceID, planID, err := b.plan("shared-small")
	if err != nil {
		return nil, err
	}
	c, err := newClient(ctx, r.addr)
	if err != nil {
		return nil, err
	}
	org, space, app := uuid.NewString(), uuid.NewString(), uuid.NewString()
	return &brokerTenant{
		client: c,
		provisionBody: fmt.Sprintf(`{"service_id":%q,"plan_id":%q,"organization_guid":%q,"space_guid":%q,"context":`+
			`{"platform":"cloudfoundry","organization_guid":%[3]q,"space_guid":%[4]q,"instance_name":"db"}}`,
			serviceID, planID, org, space),
		bindBody: fmt.Sprintf(`{"service_id":%q,"plan_id":%q,"bind_resource":{"app_guid":%q},"context":`+
			`{"platform":"cloudfoundry","organization_guid":%q,"space_guid":%q}}`, serviceID, planID, app, org, space),
		query: "?service_id=" + serviceID + "&plan_id=" + planID,
	}, nil
}

func (t *brokerTenant) life() []operation {
	instance := "/v2/service_instances/" + uuid.NewString()
	binding := instance + "/service_bindings/" + uuid.NewString()
	t.binding = binding
	return []operation{
		{name: "provision", do: func() error { return t.expect(http.StatusCreated, "PUT", instance, t.provisionBody) }},
		{name: "bind", do: func() error { return t.expect(http.StatusCreated, "PUT", binding, t.bindBody) }},
		{name: "unbind", do: func() error { return t.expect(http.StatusOK, "DELETE", binding+t.query, "") }},
		{name: "deprovision", do: func() error { return t.expect(http.StatusOK, "DELETE", instance+t.query, "") }},
	}
}

func (t *brokerTenant) account() (user, password string, err error) {
	status, answer, err := t.do("GET", t.binding, "")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d", status)
	}
	if err != nil {
		return "", "", fmt.Errorf("fetch the binding: %w", err)
	}
	var binding struct {
		Credentials struct{ Username, Password string }
	}
	err = json.Unmarshal(answer, &binding)
	return binding.Credentials.Username, binding.Credentials.Password, err
}

func (t *brokerTenant) close(context.Context) error { return t.client.close() }
