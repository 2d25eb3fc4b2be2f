package client

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"code.cloudfoundry.org/brokerapi/v13"
	"code.cloudfoundry.org/brokerapi/v13/domain"
	"code.cloudfoundry.org/brokerapi/v13/domain/apiresponses"
)

// endpoint is a service broker that answers by plan and keeps what it was asked for.
type endpoint struct {
	url string

	mu        sync.Mutex
	instances map[string]domain.ProvisionDetails
	bindings  map[string]domain.BindDetails
	updates   []domain.UpdateDetails
	requests  []*http.Request
	polls     int           // since the last 202
	release   chan struct{} // an operation of the plan "held" ends once this is closed
	held      chan struct{} // closed by the first poll of such an operation
	heldOnce  sync.Once
}

var plans = []domain.ServicePlan{
	{ID: "sync-id", Name: "sync", Description: "at once"},
	{ID: "async-id", Name: "async", Description: "in steps", MaintenanceInfo: &domain.MaintenanceInfo{Version: "1.2.3"}},
	{ID: "failing-id", Name: "failing", Description: "fails after a while"},
	{ID: "broken-id", Name: "broken", Description: "fails at once"},
	{ID: "held-id", Name: "held", Description: "ends when told"},
}

func startEndpoint(t *testing.T) *endpoint {
	t.Helper()
	e := &endpoint{
		instances: map[string]domain.ProvisionDetails{},
		bindings:  map[string]domain.BindDetails{},
		release:   make(chan struct{}),
		held:      make(chan struct{}),
	}
	handler := brokerapi.NewWithOptions(e, slog.New(slog.DiscardHandler),
		brokerapi.WithBrokerCredentials(brokerapi.BrokerCredentials{Username: "u", Password: "p"}))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		e.requests = append(e.requests, r)
		e.mu.Unlock()
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	e.url = server.URL
	return e
}

func (e *endpoint) Services(context.Context) ([]domain.Service, error) {
	return []domain.Service{
		{ID: "service-id", Name: "db", Description: "databases", Bindable: true, BindingsRetrievable: true, Plans: plans,
			DashboardClient: &domain.ServiceDashboardClient{ID: "dashboard-id", Secret: "hush"}},
		{ID: "other-id", Name: "other", Description: "other things", Plans: []domain.ServicePlan{
			{ID: "other-async-id", Name: "async", Description: "a name twice"},
		}},
	}, nil
}

func (e *endpoint) Provision(_ context.Context, id string, d domain.ProvisionDetails,
	_ bool) (domain.ProvisionedServiceSpec, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if string(d.RawParameters) == `{"wrong":1}` {
		return domain.ProvisionedServiceSpec{}, apiresponses.NewFailureResponse(
			errors.New("wrong is no parameter of db"), http.StatusBadRequest, "wrong-parameter")
	}
	if d.PlanID == "broken-id" {
		return domain.ProvisionedServiceSpec{}, errors.New("out of disks")
	}
	e.instances[id], e.polls = d, 0
	return domain.ProvisionedServiceSpec{IsAsync: d.PlanID != "sync-id", OperationData: "task_1"}, nil
}

func (e *endpoint) Update(_ context.Context, id string, d domain.UpdateDetails,
	_ bool) (domain.UpdateServiceSpec, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.isHeld(id) {
		return domain.UpdateServiceSpec{}, apiresponses.ErrConcurrentInstanceAccess
	}
	e.updates, e.polls = append(e.updates, d), 0
	return domain.UpdateServiceSpec{IsAsync: d.PlanID != "sync-id", OperationData: "task_2"}, nil
}

func (e *endpoint) Deprovision(_ context.Context, id string, d domain.DeprovisionDetails,
	_ bool) (domain.DeprovisionServiceSpec, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.instances[id]; !ok {
		return domain.DeprovisionServiceSpec{}, apiresponses.ErrInstanceDoesNotExist
	}
	if e.isHeld(id) {
		return domain.DeprovisionServiceSpec{}, apiresponses.ErrConcurrentInstanceAccess
	}
	delete(e.instances, id)
	e.polls = 0
	return domain.DeprovisionServiceSpec{IsAsync: d.PlanID != "sync-id", OperationData: "task_3"}, nil
}

func (e *endpoint) LastOperation(_ context.Context, id string, d domain.PollDetails) (domain.LastOperation, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.polls++
	if d.PlanID == "held-id" {
		e.heldOnce.Do(func() { close(e.held) })
		if e.isHeld(id) {
			return domain.LastOperation{State: domain.InProgress, Description: "Held (1 of 2)"}, nil
		}
		return domain.LastOperation{State: domain.Succeeded}, nil
	}
	if e.polls == 1 {
		return domain.LastOperation{State: domain.InProgress, Description: "Copying (2 of 4)"}, nil
	}
	if d.PlanID == "failing-id" && d.OperationData == "task_1" {
		return domain.LastOperation{State: domain.Failed, Description: "no room left"}, nil
	}
	if d.OperationData == "task_3" {
		return domain.LastOperation{}, apiresponses.ErrInstanceDoesNotExist
	}
	return domain.LastOperation{State: domain.Succeeded}, nil
}

// isHeld tells whether an operation on the instance is under way. The caller holds e.mu.
func (e *endpoint) isHeld(id string) bool {
	select {
	case <-e.release:
		return false
	default:
		return e.instances[id].PlanID == "held-id"
	}
}

// GetInstance tells of the storage of instances of the plan "async" only.
func (e *endpoint) GetInstance(_ context.Context, id string,
	_ domain.FetchInstanceDetails) (domain.GetInstanceDetailsSpec, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch e.instances[id].PlanID {
	case "async-id":
		return domain.GetInstanceDetailsSpec{Metadata: domain.InstanceMetadata{Attributes: map[string]any{
			"storage_bytes": 3 << 19, "storage_quota_bytes": 2 << 20, "storage_state": "over quota",
			"storage_message": "delete data"}}}, nil
	case "held-id":
		return domain.GetInstanceDetailsSpec{Metadata: domain.InstanceMetadata{Attributes: map[string]any{"a": "b"}}}, nil
	}
	return domain.GetInstanceDetailsSpec{}, apiresponses.ErrInstanceNotFound
}

func credentials(binding string) map[string]string {
	return map[string]string{"uri": "mysql://u:p@h/db?a=1&b=2", "username": binding}
}

func (e *endpoint) Bind(_ context.Context, _, id string, d domain.BindDetails, _ bool) (domain.Binding, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if string(d.RawParameters) == `{"wrong":1}` {
		return domain.Binding{}, apiresponses.NewFailureResponse(
			errors.New("wrong is no parameter of a key"), http.StatusBadRequest, "wrong-parameter")
	}
	e.bindings[id], e.polls = d, 0
	if d.PlanID == "async-id" {
		return domain.Binding{IsAsync: true, OperationData: "task_4"}, nil
	}
	return domain.Binding{Credentials: credentials(id)}, nil
}

func (e *endpoint) GetBinding(_ context.Context, _, id string,
	_ domain.FetchBindingDetails) (domain.GetBindingSpec, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.bindings[id]; !ok {
		return domain.GetBindingSpec{}, apiresponses.ErrBindingNotFound
	}
	return domain.GetBindingSpec{Credentials: credentials(id)}, nil
}

func (e *endpoint) LastBindingOperation(ctx context.Context, id, _ string,
	d domain.PollDetails) (domain.LastOperation, error) {
	return e.LastOperation(ctx, id, d)
}

func (e *endpoint) Unbind(_ context.Context, _, id string, _ domain.UnbindDetails, _ bool) (domain.UnbindSpec, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.bindings[id]; !ok {
		return domain.UnbindSpec{}, apiresponses.ErrBindingDoesNotExist
	}
	delete(e.bindings, id)
	return domain.UnbindSpec{}, nil
}

// counts tells how many instances and bindings there are.
func (e *endpoint) counts() (instances, bindings int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.instances), len(e.bindings)
}

func contextOf(t *testing.T, raw json.RawMessage) map[string]string {
	t.Helper()
	var c map[string]string
	if err := json.Unmarshal(raw, &c); err != nil {
		t.Fatal(err)
	}
	return c
}
