// Package broker implements the Open Service Broker API: it checks requests against the catalog, passes them to the
// provisioner, and builds the responses.
package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"code.cloudfoundry.org/brokerapi/v13/domain"
	"code.cloudfoundry.org/brokerapi/v13/domain/apiresponses"

	"mysql-broker/broker/catalog"
	"mysql-broker/broker/httpapi"
	"mysql-broker/provisioner"
	"mysql-broker/provisioner/bindings"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/instances"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
	"mysql-broker/visible"
)

// pollAgain is the time until a platform should poll an operation in progress again.
const pollAgain = 2 * time.Second

// Broker implements httpapi.Broker.
type Broker struct {
	catalog      *catalog.Catalog
	provisioner  *provisioner.Provisioner
	dashboardURL func(instanceID string) string
	caTrusted    bool
}

// New returns the broker of a catalog. dashboardURL returns the URL of an instance's page, or "" if there is none.
// caTrusted says that the platform makes applications trust the CAs of MySQL servers.
func New(c *catalog.Catalog, p *provisioner.Provisioner, dashboardURL func(instanceID string) string,
	caTrusted bool) *Broker {
	return &Broker{catalog: c, provisioner: p, dashboardURL: dashboardURL, caTrusted: caTrusted}
}

// Services handles GET /v2/catalog.
func (b *Broker) Services(context.Context) ([]domain.Service, error) {
	return b.catalog.Services(), nil
}

// Rotatable reports whether a plan has binding_rotatable.
func (b *Broker) Rotatable(planID string) bool { return b.catalog.Plans().Get(planID).Rotatable }

// asked returns ctx with the user who sent its request, for the audit.
func asked(ctx context.Context) context.Context {
	o := httpapi.OriginatorOf(ctx)
	return engine.WithActor(ctx, store.Actor{Platform: o.Platform, UserID: o.UserID, Name: o.Name, Email: o.Email,
		RequestID: o.RequestID})
}

// Provision handles PUT /v2/service_instances/{id}.
func (b *Broker) Provision(ctx context.Context, id string, d domain.ProvisionDetails, async bool,
	from httpapi.Client) (domain.ProvisionedServiceSpec, error) {
	var none domain.ProvisionedServiceSpec
	plan, err := b.catalog.Plan(d.ServiceID, d.PlanID)
	if err != nil {
		return none, apiError(err)
	}
	organization, space, err := where(d)
	if err != nil {
		return none, err
	}
	parameters, err := b.catalog.InstanceParameters(plan.ID, d.RawParameters)
	if err != nil {
		return none, apiError(err)
	}
	if err := checkMaintenance(plan, d.MaintenanceInfo); err != nil {
		return none, err
	}
	a, err := b.provisioner.Provision(asked(ctx), engine.ProvisionRequest{InstanceID: id, Plan: plan,
		OrganizationGUID: organization, SpaceGUID: space, Context: kept(d.RawContext), Parameters: parameters,
		AcceptsIncomplete: async, Received: from.Received, Left: from.Left})
	if err != nil {
		return none, apiError(err)
	}
	return domain.ProvisionedServiceSpec{AlreadyExists: a.Existed, IsAsync: a.Operation != "",
		OperationData: a.Operation, DashboardURL: b.dashboardURL(id)}, nil
}

// checkMaintenance refuses a request made for another version of the catalog. OSB API 2.15, "Maintenance Info Object":
// only the version is compared.
func checkMaintenance(of plan.Plan, info *domain.MaintenanceInfo) error {
	if !given(info) || info.Version == of.MaintenanceVersion {
		return nil
	}
	return failure(fmt.Sprintf("The version of maintenance_info is not that of plan %s in the catalog. Fetch the catalog "+
		"again, and send the request with the version in it.", of.Name), http.StatusUnprocessableEntity,
		"MaintenanceInfoConflict")
}

// given reports whether a request names a version of the catalog. An object without a version counts as absent.
func given(info *domain.MaintenanceInfo) bool { return info != nil && info.Version != "" }

// Update handles PATCH /v2/service_instances/{id}.
func (b *Broker) Update(ctx context.Context, id string, d domain.UpdateDetails,
	async bool) (domain.UpdateServiceSpec, error) {
	var none domain.UpdateServiceSpec
	planID, err := b.updatedPlan(ctx, id, d)
	if err != nil {
		return none, err
	}
	plan, err := b.catalog.Plan(d.ServiceID, planID)
	if err != nil {
		return none, apiError(err)
	}
	parameters, err := b.catalog.UpdateParameters(plan.ID, d.RawParameters)
	if err != nil {
		return none, apiError(err)
	}
	if err := checkMaintenance(plan, d.MaintenanceInfo); err != nil {
		return none, err
	}
	a, err := b.provisioner.Update(asked(ctx), engine.UpdateRequest{InstanceID: id, ServiceID: d.ServiceID,
		Plan: plan, Parameters: parameters, Upgrade: given(d.MaintenanceInfo), AcceptsIncomplete: async,
		Context: kept(d.RawContext)})
	if err := b.unlessHeld(ctx, err); err != nil {
		return none, apiError(err)
	}
	return domain.UpdateServiceSpec{IsAsync: a.Operation != "", OperationData: a.Operation,
		DashboardURL: b.dashboardURL(id)}, nil
}

// updatedPlan is the plan that an update names, or the instance's own if it names none.
func (b *Broker) updatedPlan(ctx context.Context, id string, d domain.UpdateDetails) (string, error) {
	if d.PlanID != "" {
		return d.PlanID, nil
	}
	if !b.knows(d.ServiceID) {
		return "", apiError(catalog.ErrUnknownService)
	}
	planID, err := b.provisioner.PlanID(ctx, id)
	return planID, apiError(b.unlessHeld(ctx, err))
}

func (b *Broker) knows(serviceID string) bool {
	return slices.ContainsFunc(b.catalog.Services(), func(s domain.Service) bool { return s.ID == serviceID })
}

// Deprovision handles DELETE /v2/service_instances/{id}.
func (b *Broker) Deprovision(ctx context.Context, id string, d domain.DeprovisionDetails,
	async bool) (domain.DeprovisionServiceSpec, error) {
	var none domain.DeprovisionServiceSpec
	plan, err := b.planNamed(ctx, id, d.ServiceID, d.PlanID)
	if err != nil {
		return none, err
	}
	a, err := b.provisioner.Deprovision(asked(ctx), instances.DeprovisionRequest{InstanceID: id, Plan: plan,
		AcceptsIncomplete: async})
	err = b.unlessHeld(ctx, err)
	if refusal, ok := errors.AsType[*engine.Error](err); ok && refusal.Code == engine.AlreadyDeleted {
		return none, apiresponses.ErrInstanceDoesNotExist
	}
	return domain.DeprovisionServiceSpec{IsAsync: a.Operation != "", OperationData: a.Operation}, apiError(err)
}

// planNamed finds the plan of the instance to delete. The request may name a plan that was removed from the catalog, if
// the instance has or had it.
func (b *Broker) planNamed(ctx context.Context, instanceID, serviceID, planID string) (plan.Plan, error) {
	plan, unknown := b.catalog.Plan(serviceID, planID)
	if unknown == nil {
		return plan, nil
	}
	plan, found, err := b.provisioner.RemovedPlan(ctx, instanceID, serviceID, planID)
	if err != nil || found {
		return plan, apiError(err)
	}
	return plan, apiError(unknown)
}

// LastOperation handles GET /v2/service_instances/{id}/last_operation.
func (b *Broker) LastOperation(ctx context.Context, id string, d domain.PollDetails) (httpapi.LastOperation, error) {
	return b.lastOperation(ctx, id, "", d)
}

// LastBindingOperation handles GET /v2/service_instances/{id}/service_bindings/{id}/last_operation. A bind responds
// after the binding is created, so the operation has always ended.
func (b *Broker) LastBindingOperation(ctx context.Context, id, bindingID string,
	d domain.PollDetails) (httpapi.LastOperation, error) {
	return b.lastOperation(ctx, id, bindingID, d)
}

func (b *Broker) lastOperation(ctx context.Context, id, bindingID string,
	d domain.PollDetails) (last httpapi.LastOperation, _ error) {
	op, err := b.provisioner.LastOperation(ctx, id, bindingID, d.OperationData)
	if hint := b.checkHint(ctx, id, d.ServiceID, d.PlanID); hint != nil {
		return last, hint
	}
	if err != nil {
		return last, apiError(err)
	}
	last.State, last.Description = domain.LastOperationState(op.State), visible.Text(op.Description)
	if op.State == store.InProgress {
		last.RetryAfter = pollAgain
	}
	return last, nil
}

// checkHint refuses ids that belong neither to the catalog nor to the instance. It is for requests in which the ids are
// optional.
func (b *Broker) checkHint(ctx context.Context, instanceID, serviceID, planID string) error {
	switch {
	case serviceID != "" && planID != "":
		_, err := b.planNamed(ctx, instanceID, serviceID, planID)
		return err
	case serviceID != "" && !b.knows(serviceID):
		return apiError(catalog.ErrUnknownService)
	}
	return nil
}

// GetInstance handles GET /v2/service_instances/{id}.
func (b *Broker) GetInstance(ctx context.Context, id string,
	d domain.FetchInstanceDetails) (fetched httpapi.Instance, err error) {
	if err := b.checkHint(ctx, id, d.ServiceID, d.PlanID); err != nil {
		return fetched, err
	}
	i, err := b.provisioner.Instance(ctx, id)
	if err := b.unlessHeld(ctx, err); err != nil {
		return fetched, apiError(err)
	}
	if i.MaintenanceVersion != "" {
		fetched.MaintenanceInfo = &domain.MaintenanceInfo{Version: i.MaintenanceVersion}
	}
	metadata, err := b.metadata(ctx, i)
	fetched.GetInstanceDetailsSpec = domain.GetInstanceDetailsSpec{ServiceID: i.ServiceID, PlanID: i.PlanID,
		Parameters: asSent(i.Parameters), Metadata: metadata, DashboardURL: b.dashboardURL(id)}
	return fetched, err
}

// asSent leaves out of parameters what no user has sent.
func asSent(parameters json.RawMessage) json.RawMessage {
	var all map[string]json.RawMessage
	if !bytes.Contains(parameters, []byte(store.BootstrapSum)) || json.Unmarshal(parameters, &all) != nil {
		return parameters
	}
	delete(all, store.BootstrapSum)
	sent, _ := json.Marshal(all) // which was JSON before
	return sent
}

// Bind handles PUT /v2/service_instances/{id}/service_bindings/{id}.
func (b *Broker) Bind(ctx context.Context, id, bindingID string, d httpapi.BindDetails,
	_ bool) (domain.Binding, error) {
	var none domain.Binding
	plan, err := b.boundPlan(ctx, id, d)
	if err != nil {
		return none, err
	}
	parameters, err := b.catalog.BindingParameters(plan.ID, d.RawParameters)
	if err != nil {
		return none, apiError(err)
	}
	if d.BindResource != nil && d.BindResource.Route != "" {
		return none, invalid("A database cannot be bound to a route. Bind it to an app, or make a service key.")
	}
	organization, space := user(d.BindDetails)
	c, existed, err := b.provisioner.Bind(asked(ctx), bindings.BindRequest{InstanceID: id, BindingID: bindingID,
		ServiceID: plan.ServiceID, AppGUID: appGUID(d.BindDetails), ReaderID: readerID(d.BindDetails),
		SpaceGUID: space, OrganizationGUID: organization, Parameters: parameters, Predecessor: d.Predecessor,
		Inherits: d.Predecessor != "" && noParameters(d.RawParameters)})
	if err := b.unlessHeld(ctx, err); err != nil {
		return none, apiError(err)
	}
	return domain.Binding{AlreadyExists: existed, Credentials: b.credentials(c), Endpoints: endpoints(c),
		Metadata: bindingMetadata(c)}, nil
}

// boundPlan returns the plan that a bind request names. A request for a successor may leave out the ids; then the plan
// is that of the instance.
func (b *Broker) boundPlan(ctx context.Context, instanceID string, d httpapi.BindDetails) (plan.Plan, error) {
	serviceID, planID := d.ServiceID, d.PlanID
	if planID == "" {
		var err error
		planID, err = b.provisioner.PlanID(ctx, instanceID)
		if err := b.unlessHeld(ctx, err); err != nil {
			return plan.Plan{}, apiError(err)
		}
	}
	if serviceID == "" {
		serviceID = b.catalog.Plans().Get(planID).ServiceID
	}
	named, err := b.catalog.Plan(serviceID, planID)
	return named, apiError(err)
}

// noParameters reports whether a request has no parameters.
func noParameters(raw json.RawMessage) bool {
	var given map[string]json.RawMessage
	return len(raw) == 0 || json.Unmarshal(raw, &given) == nil && len(given) == 0
}

// appGUID is the application of a binding. Platforms send it in one of two places, or not at all for a service key.
func appGUID(d domain.BindDetails) string {
	if d.BindResource != nil && d.BindResource.AppGuid != "" {
		return d.BindResource.AppGuid
	}
	return d.AppGUID
}

// bindingTime is the time format that the specification requires. OSB API 2.17, "Binding Metadata Object".
const bindingTime = "2006-01-02T15:04:05.0Z"

// bindingMetadata says when a binding expires. It is empty for one that does not end by itself.
func bindingMetadata(c bindings.Credentials) (m domain.BindingMetadata) {
	if !c.ExpiresAt.IsZero() {
		m.ExpiresAt = c.ExpiresAt.UTC().Format(bindingTime)
		m.RenewBefore = c.RenewBefore.UTC().Format(bindingTime)
	}
	return m
}

// readerID is the client of UAA with which Cloud Controller reads the credentials of a service key in CredHub.
func readerID(d domain.BindDetails) string {
	if d.BindResource == nil {
		return ""
	}
	return d.BindResource.CredentialClientID
}

func endpoints(c bindings.Credentials) []domain.Endpoint {
	return []domain.Endpoint{{Host: c.Host, Ports: []string{strconv.Itoa(c.Port)}, Protocol: "tcp"}}
}

// GetBinding handles GET /v2/service_instances/{id}/service_bindings/{id}.
func (b *Broker) GetBinding(ctx context.Context, id, bindingID string,
	d domain.FetchBindingDetails) (domain.GetBindingSpec, error) {
	if err := b.checkHint(ctx, id, d.ServiceID, d.PlanID); err != nil {
		return domain.GetBindingSpec{}, err
	}
	c, err := b.provisioner.Binding(ctx, id, bindingID)
	if err := b.unlessHeld(ctx, err); err != nil {
		return domain.GetBindingSpec{}, apiError(err)
	}
	var parameters map[string]any
	if err := json.Unmarshal(c.Parameters, &parameters); err != nil {
		return domain.GetBindingSpec{}, err
	}
	return domain.GetBindingSpec{Credentials: b.credentials(c), Endpoints: endpoints(c), Parameters: parameters,
		Metadata: bindingMetadata(c)}, nil
}

// Unbind handles DELETE /v2/service_instances/{id}/service_bindings/{id}.
func (b *Broker) Unbind(ctx context.Context, id, bindingID string, d domain.UnbindDetails,
	_ bool) (domain.UnbindSpec, error) {
	if _, err := b.planNamed(ctx, id, d.ServiceID, d.PlanID); err != nil {
		return domain.UnbindSpec{}, err
	}
	err := b.provisioner.Unbind(asked(ctx), bindings.UnbindRequest{InstanceID: id, BindingID: bindingID})
	err = b.unlessHeld(ctx, err)
	if refusal, ok := errors.AsType[*engine.Error](err); ok && refusal.Code == engine.AlreadyDeleted {
		return domain.UnbindSpec{}, apiresponses.ErrBindingDoesNotExist
	}
	return domain.UnbindSpec{}, apiError(err)
}

var _ httpapi.Broker = (*Broker)(nil)
