package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"code.cloudfoundry.org/brokerapi/v13/domain"
	"code.cloudfoundry.org/brokerapi/v13/domain/apiresponses"
	"github.com/google/uuid"
)

// Brokers for Cloud Foundry expect an organization and a space; this platform has one of each.
const (
	organization = "5f0b4a3c-6a0e-4c0e-9d43-0d7f3c1c1a01"
	space        = "5f0b4a3c-6a0e-4c0e-9d43-0d7f3c1c1a02"
)

func (s *session) createService(ctx context.Context, args []string) error {
	planName, name := args[0], args[1]
	all, err := s.inventory.all()
	if err != nil {
		return err
	}
	if in := all[name]; in != nil {
		err := fmt.Errorf("there is a service instance %s already: %s", name, in.Last)
		if in.Last.Kind == create && in.Last.State == domain.Failed {
			err = fmt.Errorf("%w. Run \"mysql-broker client delete-service %s\" first", err, name)
		}
		return err
	}
	p, err := s.findPlan(ctx, planName)
	if err != nil {
		return err
	}
	in := &instance{GUID: uuid.NewString(), Plan: p, Last: begun(create)}
	w := s.work("Creating", name, in)
	w.refuse = func() error { return s.inventory.remove(name) }
	a, err := s.perform(ctx, w, http.MethodPut, domain.ProvisionDetails{
		ServiceID:        p.ServiceID,
		PlanID:           p.ID,
		OrganizationGUID: organization,
		SpaceGUID:        space,
		RawContext:       instanceContext(name),
		RawParameters:    s.parameters,
		MaintenanceInfo:  p.Maintenance,
	})
	if err != nil {
		return err
	}
	var made apiresponses.ProvisioningResponse
	if err := a.decode(&made); err != nil {
		return err
	}
	in.Dashboard = made.DashboardURL
	if err := w.save(); err != nil {
		return err
	}
	return s.report("Created service instance "+name, view{Name: name, instance: in})
}

func (s *session) updateService(ctx context.Context, args []string) error {
	name := args[0]
	in, err := s.inventory.instance(name)
	if err != nil {
		return err
	}
	if s.plan == "" && s.parameters == nil {
		return errors.New("nothing to change: give a plan (-p) or parameters (-c)")
	}
	body := domain.UpdateDetails{
		ServiceID:     in.Plan.ServiceID,
		PlanID:        in.Plan.ID,
		RawParameters: s.parameters,
		RawContext:    instanceContext(name),
		PreviousValues: domain.PreviousValues{
			PlanID:          in.Plan.ID,
			ServiceID:       in.Plan.ServiceID,
			OrgID:           organization,
			SpaceID:         space,
			MaintenanceInfo: in.Plan.Maintenance,
		},
	}
	if body.RawParameters == nil {
		body.RawParameters = json.RawMessage("{}")
	}
	before := *in
	in.Last, in.NextPlan = begun(update), nil
	if s.plan != "" {
		p, err := s.findPlan(ctx, in.Plan.Offering+"/"+strings.TrimPrefix(s.plan, in.Plan.Offering+"/"))
		if err != nil {
			return err
		}
		body.PlanID, body.MaintenanceInfo, in.NextPlan = p.ID, p.Maintenance, &p
	}
	w := s.work("Updating", name, in)
	w.refuse = func() error { return s.takeBack(name, in, before) }
	if _, err := s.perform(ctx, w, http.MethodPatch, body); err != nil {
		return err
	}
	return s.report("Updated service instance "+name, view{Name: name, instance: in})
}

// deleteService deletes the instance's keys first, as Cloud Controller does.
func (s *session) deleteService(ctx context.Context, args []string) error {
	name := args[0]
	in, err := s.inventory.instance(name)
	if err != nil {
		return err
	}
	for _, keyName := range slices.Sorted(maps.Keys(in.Keys)) {
		if err := s.unbind(ctx, name, keyName); err != nil {
			return fmt.Errorf("delete key %s: %w", keyName, err)
		}
	}
	before := *in
	in.Last = begun(remove)
	w := s.work("Deleting", name, in)
	w.refuse = func() error { return s.takeBack(name, in, before) }
	if _, err := s.perform(ctx, w, http.MethodDelete, nil); err != nil {
		return err
	}
	return s.report("Deleted service instance "+name, view{Name: name, instance: in})
}

func (s *session) work(verb, name string, in *instance) work {
	return work{
		title: verb + " service instance " + name,
		path:  in.path(),
		plan:  in.Plan,
		op:    &in.Last,
		save:  func() error { return s.saveInstance(name, in) },
	}
}

// saveInstance stores the instance, with the effect of its operation's success.
func (s *session) saveInstance(name string, in *instance) error {
	if in.Last.State != domain.Succeeded {
		return s.inventory.put(name, in)
	}
	if in.Last.Kind == remove {
		return s.inventory.remove(name)
	}
	if in.NextPlan != nil {
		in.Plan, in.NextPlan = *in.NextPlan, nil
	}
	return s.inventory.put(name, in)
}

// takeBack stores an instance after a refused operation.
func (s *session) takeBack(name string, in *instance, before instance) error {
	in.NextPlan = before.NextPlan
	in.Last = before.Last
	return s.inventory.put(name, in)
}

func (in *instance) path() string { return "/v2/service_instances/" + url.PathEscape(in.GUID) }

func instanceContext(name string) json.RawMessage {
	data, _ := json.Marshal(map[string]string{ // a map of strings always encodes
		"platform":          platform,
		"organization_guid": organization,
		"space_guid":        space,
		"instance_name":     name,
	})
	return data
}
