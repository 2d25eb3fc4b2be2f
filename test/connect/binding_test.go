package connect

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mysql-broker/test/testdrive"
)

// binding is the credentials of one, as an application finds them.
type binding map[string]any

func (b binding) text(field string) string { return fmt.Sprint(b[field]) }

// address is where the server is.
func (b binding) address() string { return net.JoinHostPort(b.text("host"), b.text("port")) }

// at are the credentials of the same account on a server elsewhere.
func (b binding) at(host string, port int) binding {
	moved := maps.Clone(b)
	for field, value := range moved {
		if text, ok := value.(string); ok {
			moved[field] = strings.ReplaceAll(text, b.address(), net.JoinHostPort(host, strconv.Itoa(port)))
		}
	}
	moved["host"], moved["hostname"], moved["port"] = host, host, port
	return moved
}

// vcapServices is the variable in which Cloud Foundry hands credentials to applications.
func (b binding) vcapServices(t *testing.T) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"mysql": []map[string]any{{"name": "db", "label": "mysql",
		"tags": []string{"mysql", "relational"}, "credentials": b}}})
	require.NoError(t, err)
	return string(text)
}

// tenant is an instance of shared-large, to make bindings of.
type tenant struct {
	broker          *testdrive.Broker
	path            string
	service, planID string
}

func newTenant(t *testing.T, b *testdrive.Broker, id string) tenant {
	t.Helper()
	service, plan := testdrive.Plan(t, "shared-large")
	i := tenant{b, "/v2/service_instances/" + id, service, plan}
	query := "?service_id=" + service + "&plan_id=" + plan
	b.Do(t, "PUT", i.path, map[string]any{"service_id": service, "plan_id": plan, "organization_guid": "o",
		"space_guid": "s"}).Expect(t, http.StatusCreated)
	t.Cleanup(func() { b.Do(t, "DELETE", i.path+query, nil).Expect(t, http.StatusOK) })
	return i
}

// bind makes an account, which no driver has logged in with before: MySQL remembers what spares later logins to send the
// password.
func (i tenant) bind(t *testing.T, id string, parameters map[string]any) binding {
	t.Helper()
	r := i.broker.Do(t, "PUT", i.path+"/service_bindings/"+id, map[string]any{"service_id": i.service,
		"plan_id": i.planID, "parameters": parameters}).Expect(t, http.StatusCreated)
	t.Cleanup(func() {
		i.broker.Do(t, "DELETE", i.path+"/service_bindings/"+id+"?service_id="+i.service+"&plan_id="+i.planID, nil).
			Expect(t, http.StatusOK)
	})
	c, ok := r.Body["credentials"].(map[string]any)
	require.True(t, ok, "the answer has no credentials")
	return binding(c)
}
