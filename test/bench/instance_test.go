package bench

import (
	"fmt"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/audit"
	"mysql-broker/test/testdrive"
)

// instance is a service instance of a broker, which need not exist yet.
type instance struct {
	broker            *testdrive.Broker
	serviceID, planID string
	id                string
}

func newInstance(b *testing.B, broker *testdrive.Broker, plan string) instance {
	b.Helper()
	serviceID, planID := testdrive.Plan(b, plan)
	return instance{broker: broker, serviceID: serviceID, planID: planID, id: uuid.NewString()}
}

func (i instance) path() string  { return "/v2/service_instances/" + i.id }
func (i instance) query() string { return "service_id=" + i.serviceID + "&plan_id=" + i.planID }

func (i instance) newBinding() string { return i.path() + "/service_bindings/" + uuid.NewString() }

// body is what Cloud Foundry sends, with more keys.
func (i instance) body(more map[string]any) map[string]any {
	body := map[string]any{
		"service_id": i.serviceID, "plan_id": i.planID, "organization_guid": "org", "space_guid": "space",
		"context": map[string]any{"platform": "cloudfoundry", "organization_guid": "org", "space_guid": "space",
			"instance_name": "db"},
	}
	maps.Copy(body, more)
	return body
}

// request sends a request whose response must have one status.
func (i instance) request(status int, method, path string, body any) (testdrive.Response, error) {
	r, err := i.broker.Send(method, path, body, nil)
	if err == nil && r.Status != status {
		err = fmt.Errorf("%s %s: status %d: %s", method, path, r.Status, r.Raw)
	}
	return r, err
}

// bind creates a binding and returns its credentials.
func (i instance) bind(b *testing.B) audit.Credentials {
	b.Helper()
	r := i.broker.Do(b, "PUT", i.newBinding(), i.body(nil)).Expect(b, http.StatusCreated)
	c, err := audit.ReadCredentials(r.Body["credentials"])
	require.NoError(b, err)
	return c
}

// operate starts an asynchronous operation, polls it, and returns how long it took.
func (i instance) operate(b *testing.B, method string, body any, every time.Duration) time.Duration {
	b.Helper()
	since := time.Now()
	begun := i.broker.Do(b, method, i.path()+"?accepts_incomplete=true&"+i.query(), body).Expect(b, http.StatusAccepted)
	for {
		r := i.broker.Do(b, "GET", i.path()+"/last_operation?operation="+begun.String("operation"), nil)
		if r.String("state") == "succeeded" || r.Status == http.StatusGone && method == "DELETE" {
			return time.Since(since)
		}
		require.Equal(b, "in progress", r.String("state"), "%s of %s: status %d: %s", method, i.id, r.Status, r.Raw)
		time.Sleep(every)
	}
}
