package httpapi

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"code.cloudfoundry.org/brokerapi/v13/domain"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/logged"
)

const (
	testPassword = "pass:word-of-the-test"
	testIdentity = "e5c6fa51-identity-of-the-test"
)

// server is the handler under test, with all that can be seen of it from outside.
type server struct {
	http.Handler
	broker  *recordingBroker
	metrics *prometheus.Registry
	log     *logged.Text
}

func newServer(t *testing.T, b *recordingBroker) *server {
	s := newServerWith(t, b, Proxies{})
	s.broker = b
	return s
}

func newServerWith(t *testing.T, b Broker, proxies Proxies) *server {
	s := &server{metrics: prometheus.NewRegistry(), log: &logged.Text{}}
	h, err := New(b, Config{
		Credentials: []Credential{{"old", "old password"}, {"broker", testPassword}},
		Logger:      slog.New(slog.NewJSONHandler(s.log, nil)),
		Registerer:  s.metrics,
		Proxies:     proxies,
	})
	require.NoError(t, err)
	s.Handler = h
	return s
}

// request is written byte by byte, because net/http's client would correct mistakes that the handler must cope with.
type request struct {
	method, target string
	// header replaces defaults; an empty value leaves the header out.
	header map[string]string
	body   string
}

// reply is a response with its JSON object.
type reply struct {
	status int
	header http.Header
	body   string
	object map[string]any
}

func (r reply) description() string {
	text, _ := r.object["description"].(string)
	return text
}

// do sends the request, and checks what all responses have in common.
func (s *server) do(t *testing.T, q request) reply {
	got := s.exchange(t, q)
	assert.False(t, q.method != http.MethodHead && got.object == nil,
		"%s %s: answer %d is not one JSON object", q.method, q.target, got.status)
	assert.Equal(t, "application/json", got.header.Get("Content-Type"), "%s %s: Content-Type", q.method, q.target)
	assert.Equal(t, testIdentity, got.header.Get("X-Broker-API-Request-Identity"),
		"%s %s: answer %d has request identity", q.method, q.target, got.status)
	if length := got.header.Get("Content-Length"); length != "" {
		assert.Equal(t, fmt.Sprint(len(got.body)), length, "%s %s: Content-Length", q.method, q.target)
	}
	return got
}

// exchange sends the request and reads the response. object is nil if the body is not a JSON object.
func (s *server) exchange(t *testing.T, q request) reply {
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(q.bytes())))
	require.NoError(t, err, "%s %s", q.method, q.target)
	r.RemoteAddr = "192.0.2.1:1234"
	return serve(s, r)
}

// serve has a handler serve a request.
func serve(h http.Handler, r *http.Request) reply {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	got := reply{status: w.Code, header: w.Result().Header, body: w.Body.String()}
	if err := json.Unmarshal(w.Body.Bytes(), &got.object); err != nil {
		got.object = nil
	}
	return got
}

func (q request) bytes() string {
	header := map[string]string{
		"Host":                          "broker.example",
		"Connection":                    "close",
		"Authorization":                 basic("broker", testPassword),
		"X-Broker-API-Version":          "2.14",
		"X-Broker-API-Request-Identity": testIdentity,
		"Content-Length":                fmt.Sprint(len(q.body)),
	}
	maps.Copy(header, q.header)
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", q.method, q.target)
	for name, value := range header {
		if value != "" {
			fmt.Fprintf(&b, "%s: %s\r\n", name, value)
		}
	}
	b.WriteString("\r\n" + q.body)
	return b.String()
}

func basic(username, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(username+":"+password))
}

// lines returns the lines of the log.
func (s *server) lines(t *testing.T) (all []map[string]any) {
	for text := range strings.Lines(s.log.String()) {
		var line map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &line), "log line %q", text)
		all = append(all, line)
	}
	require.NotEmpty(t, all)
	return all
}

// received is one call that reached the broker.
type received struct {
	method     string
	instanceID string
	bindingID  string
	details    any
	async      bool
	info       requestInfo
	from       Client // of a provision
}

// recordingBroker stands in for the broker: the HTTP layer is the unit under test here. Every method records what it
// got, then does as act says, and succeeds if there is no act.
type recordingBroker struct {
	act     func(ctx context.Context) error
	binding domain.Binding
	// What brokerapi has no place for.
	retryAfter  time.Duration
	maintenance *domain.MaintenanceInfo
	rotatable   string // a plan's id

	mu    sync.Mutex
	calls []received
}

func (b *recordingBroker) record(ctx context.Context, call received) error {
	call.info = callFrom(ctx).info
	b.mu.Lock()
	b.calls = append(b.calls, call)
	b.mu.Unlock()
	if b.act == nil {
		return nil
	}
	return b.act(ctx)
}

// received returns the calls since it was called last, without those for the catalog, which the library makes itself.
func (b *recordingBroker) received() []received {
	b.mu.Lock()
	defer b.mu.Unlock()
	calls := b.calls
	b.calls = nil
	return calls
}

func (b *recordingBroker) Services(context.Context) ([]domain.Service, error) {
	return []domain.Service{{ID: "s", Name: "mysql", Plans: []domain.ServicePlan{{ID: "p", Name: "small"}}}}, nil
}

func (b *recordingBroker) Provision(ctx context.Context, id string, d domain.ProvisionDetails, async bool,
	from Client) (domain.ProvisionedServiceSpec, error) {
	return domain.ProvisionedServiceSpec{IsAsync: async, OperationData: "task_1"},
		b.record(ctx, received{method: "Provision", instanceID: id, details: d, async: async, from: from})
}

func (b *recordingBroker) Deprovision(ctx context.Context, id string, d domain.DeprovisionDetails,
	async bool) (domain.DeprovisionServiceSpec, error) {
	return domain.DeprovisionServiceSpec{},
		b.record(ctx, received{method: "Deprovision", instanceID: id, details: d, async: async})
}

func (b *recordingBroker) GetInstance(ctx context.Context, id string, d domain.FetchInstanceDetails) (Instance, error) {
	return Instance{domain.GetInstanceDetailsSpec{ServiceID: "s", PlanID: "p"}, b.maintenance},
		b.record(ctx, received{method: "GetInstance", instanceID: id, details: d})
}

func (b *recordingBroker) Update(ctx context.Context, id string, d domain.UpdateDetails,
	async bool) (domain.UpdateServiceSpec, error) {
	return domain.UpdateServiceSpec{}, b.record(ctx, received{method: "Update", instanceID: id, details: d, async: async})
}

func (b *recordingBroker) LastOperation(ctx context.Context, id string, d domain.PollDetails) (LastOperation, error) {
	return LastOperation{LastOperation: domain.LastOperation{State: domain.InProgress}, RetryAfter: b.retryAfter},
		b.record(ctx, received{method: "LastOperation", instanceID: id, details: d})
}

func (b *recordingBroker) Rotatable(planID string) bool { return planID == b.rotatable }

func (b *recordingBroker) Bind(ctx context.Context, id, bindingID string, d BindDetails,
	async bool) (domain.Binding, error) {
	return b.binding,
		b.record(ctx, received{method: "Bind", instanceID: id, bindingID: bindingID, details: d, async: async})
}

func (b *recordingBroker) Unbind(ctx context.Context, id, bindingID string, d domain.UnbindDetails,
	async bool) (domain.UnbindSpec, error) {
	return domain.UnbindSpec{},
		b.record(ctx, received{method: "Unbind", instanceID: id, bindingID: bindingID, details: d, async: async})
}

func (b *recordingBroker) GetBinding(ctx context.Context, id, bindingID string,
	d domain.FetchBindingDetails) (domain.GetBindingSpec, error) {
	return domain.GetBindingSpec{},
		b.record(ctx, received{method: "GetBinding", instanceID: id, bindingID: bindingID, details: d})
}

func (b *recordingBroker) LastBindingOperation(ctx context.Context, id, bindingID string,
	d domain.PollDetails) (LastOperation, error) {
	return LastOperation{LastOperation: domain.LastOperation{State: domain.Succeeded}, RetryAfter: b.retryAfter},
		b.record(ctx, received{method: "LastBindingOperation", instanceID: id, bindingID: bindingID, details: d})
}
