package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	api "mysql-broker/broker"
	"mysql-broker/broker/catalog"
	"mysql-broker/broker/httpapi"
	"mysql-broker/provisioner"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/shared"
	"mysql-broker/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// BenchmarkPoll is one last_operation request, from the handler on: what net/http adds is left out.
func BenchmarkPoll(b *testing.B) {
	h := newHandler(b, servers.AllMySQL(b)[0])
	instance := "/v2/service_instances/" + uuid.NewString()
	answer := h.do(b, http.StatusAccepted, "PUT", instance+"?accepts_incomplete=true", h.provisionBody("shared-async"))
	var accepted struct{ Operation string }
	if err := json.Unmarshal(answer, &accepted); err != nil {
		b.Fatal(err)
	}
	poll := h.request(b, "GET", instance+"/last_operation?operation="+accepted.Operation, "")
	b.ReportAllocs()
	for b.Loop() {
		h.serve(b, http.StatusOK, poll)
	}
}

// BenchmarkProvision is one synchronous provision, on each flavour. What else the broker does in the background is
// counted too. The instances are deleted outside of the measurement.
func BenchmarkProvision(b *testing.B) {
	for _, s := range servers.AllMySQL(b) {
		b.Run(s.Flavour, func(b *testing.B) {
			h := newHandler(b, s)
			body := h.provisionBody("shared-small")
			query := "?service_id=" + h.plans["shared-small"].ServiceID + "&plan_id=" + h.plans["shared-small"].ID
			b.ReportAllocs()
			for b.Loop() {
				instance := "/v2/service_instances/" + uuid.NewString()
				h.do(b, http.StatusCreated, "PUT", instance, body)
				b.StopTimer()
				h.do(b, http.StatusOK, "DELETE", instance+query, "")
				b.StartTimer()
			}
		})
	}
}

// apiHandler is the broker's, without the server around it.
type apiHandler struct {
	http.Handler
	plans map[string]plan.Plan // by name
}

func newHandler(b *testing.B, server servers.MySQL) *apiHandler {
	c, err := catalog.Load("../../catalog.yml")
	if err != nil {
		b.Fatal(err)
	}
	c = c.Without(plan.Dedicated)
	s := servers.Store(b)
	lockKey, err := s.SessionLockKey(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	on, err := shared.Open([]shared.Config{{Host: server.Host, Port: server.Port, Admin: mysqladmin.Config{
		Name: "shared-1", Addr: server.Address(), User: server.BrokerUser,
		Password: server.BrokerPassword, CA: []byte(server.CA)}}}, lockKey)
	if err != nil {
		b.Fatal(err)
	}
	log := slog.New(slog.NewJSONHandler(io.Discard, nil)) // what `serve` logs, written nowhere
	on.Watch(b.Context(), log)
	p := provisioner.New(provisioner.Config{Store: s, Plans: c.Plans(), Logger: log,
		Fleet: fleet.New(fleet.Config{Store: s, Shared: on, SessionLockKey: lockKey})})
	b.Cleanup(func() {
		p.Stop()
		if err := on.Close(); err != nil {
			b.Error(err)
		}
	})
	v2, err := httpapi.New(api.New(c, p, func(string) string { return "" }, false), httpapi.Config{Logger: log, Registerer: prometheus.NewRegistry(),
		Credentials: []httpapi.Credential{{Username: username, Password: password}}})
	if err != nil {
		b.Fatal(err)
	}
	h := &apiHandler{Handler: v2, plans: map[string]plan.Plan{}}
	for _, plan := range c.Plans() {
		h.plans[plan.Name] = plan
	}
	return h
}

func (h *apiHandler) provisionBody(plan string) string {
	return fmt.Sprintf(`{"service_id":%q,"plan_id":%q,"organization_guid":"org","space_guid":"space"}`,
		h.plans[plan].ServiceID, h.plans[plan].ID)
}

// do makes a request that must be answered with one status, and returns the answer.
func (h *apiHandler) do(b *testing.B, status int, method, path, body string) []byte {
	return h.serve(b, status, h.request(b, method, path, body))
}

func (h *apiHandler) request(b *testing.B, method, path, body string) *http.Request {
	q, err := http.NewRequestWithContext(b.Context(), method, path, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	q.RemoteAddr = "127.0.0.1:40000"
	q.SetBasicAuth(username, password)
	q.Header.Set("X-Broker-Api-Version", "2.17")
	q.Header.Set("Content-Type", "application/json")
	return q
}

func (h *apiHandler) serve(b *testing.B, status int, q *http.Request) []byte {
	w := keptAnswer{header: http.Header{}}
	h.ServeHTTP(&w, q)
	if w.status != status {
		b.Fatalf("%s %s: status %d instead of %d: %s", q.Method, q.URL, w.status, status, w.body)
	}
	return w.body
}

// keptAnswer keeps an answer at less cost than httptest's.
type keptAnswer struct {
	header http.Header
	status int
	body   []byte
}

func (a *keptAnswer) Header() http.Header { return a.header }

func (a *keptAnswer) WriteHeader(status int) { a.status = status }

func (a *keptAnswer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	a.body = append(a.body, p...)
	return len(p), nil
}
