package httpapi

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/limits"
)

const (
	anInstance = "/v2/service_instances/i"
	aBinding   = anInstance + "/service_bindings/b"
	aBody      = `{"service_id":"s","plan_id":"p"}`
	theIDs     = "?service_id=s&plan_id=p"
)

// endpoints are requests with the successful responses that the specification demands, and the broker's methods.
var endpoints = []struct {
	request
	status int
	called string
}{
	{request{method: "GET", target: "/v2/catalog"}, 200, ""},
	{request{method: "HEAD", target: "/v2/catalog"}, 200, ""},
	{request{method: "PUT", target: anInstance, body: aBody}, 201, "Provision"},
	{request{method: "PUT", target: anInstance + "?accepts_incomplete=true", body: aBody}, 202, "Provision"},
	{request{method: "PATCH", target: anInstance, body: aBody}, 200, "Update"},
	{request{method: "DELETE", target: anInstance + theIDs}, 200, "Deprovision"},
	{request{method: "GET", target: anInstance}, 200, "GetInstance"},
	{request{method: "GET", target: anInstance + "/last_operation?operation=task_1"}, 200, "LastOperation"},
	{request{method: "PUT", target: aBinding, body: aBody}, 201, "Bind"},
	{request{method: "DELETE", target: aBinding + theIDs}, 200, "Unbind"},
	{request{method: "GET", target: aBinding}, 200, "GetBinding"},
	{request{method: "GET", target: aBinding + "/last_operation"}, 200, "LastBindingOperation"},
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	s := newServer(t, &recordingBroker{})
	for _, c := range endpoints {
		got := s.do(t, c.request)
		assert.Equal(t, c.status, got.status, "%s %s: %v", c.method, c.target, got.object)
		called := ""
		for _, call := range s.broker.received() {
			called += call.method
		}
		assert.Equal(t, c.called, called, "%s %s", c.method, c.target)
	}
}

// A malformed request is refused with a sentence, and does not reach the broker.
func TestRefusals(t *testing.T) {
	t.Parallel()
	s := newServer(t, &recordingBroker{})
	put := func(body string) request { return request{method: "PUT", target: anInstance, body: body} }
	bind := func(body string) request { return request{method: "PUT", target: aBinding, body: body} }
	get := func(target string) request { return request{method: "GET", target: target} }
	version := func(v string) request {
		return request{method: "GET", target: "/v2/catalog", header: map[string]string{"X-Broker-API-Version": v}}
	}
	login := func(authorization string) request {
		return request{method: "GET", target: "/v2/catalog", header: map[string]string{"Authorization": authorization}}
	}
	for _, c := range []struct {
		name   string
		q      request
		status int
		says   string
	}{
		{"no login", login(""), 401, "basic authentication"},
		{"wrong password", login(basic("broker", "old password")), 401, "basic authentication"},
		{"wrong user", login(basic("admin", testPassword)), 401, "basic authentication"},
		{"empty login", login(basic("", "")), 401, "basic authentication"},
		{"other scheme", login("Bearer x"), 401, "basic authentication"},
		{"login before version", request{method: "GET", target: "/", header: map[string]string{
			"Authorization": "", "X-Broker-API-Version": ""}}, 401, "basic authentication"},

		{"no version", version(""), 412, "2.x"},
		{"major 3", version("3.0"), 412, "2.x"},
		{"fetch before 2.14", request{method: "GET", target: anInstance, header: map[string]string{
			"X-Broker-API-Version": "2.13"}}, 412, "2.14"},

		{"unknown path", get("/v3/catalog"), 404, "no such path"},
		{"root", get("/"), 404, "no such path"},
		{"double slash", get("/v2//catalog"), 404, "no such path"},
		{"dot dot", get("/v2/x/../catalog"), 404, "no such path"},
		{"empty id", get("/v2/service_instances/"), 404, "no such path"},
		{"empty id inside", get("/v2/service_instances//last_operation"), 404, "no such path"},
		{"star", request{method: "PUT", target: "*", body: aBody}, 404, "no such path"},

		{"method", request{method: "POST", target: "/v2/catalog"}, 405, "GET, HEAD"},
		{"patch of a binding", request{method: "PATCH", target: aBinding, body: "{"}, 405, "DELETE, GET, HEAD, PUT"},
		{"invented method", request{method: "BREW", target: anInstance}, 405, "PATCH"},

		{"id NUL", get("/v2/service_instances/a%00"), 400, "instance_id"},
		{"id newline", get("/v2/service_instances/a%0Ab"), 400, "not printable"},
		{"id invalid UTF-8", get("/v2/service_instances/%ff"), 400, "UTF-8"},
		{"id dots", get("/v2/service_instances/%2e%2e/last_operation"), 400, `".."`},
		{"id dot", get("/v2/service_instances/%2e"), 400, `"."`},
		{"id too long", get("/v2/service_instances/" + strings.Repeat("a", 257)), 400, "256 bytes"},
		{"binding id", get(anInstance + "/service_bindings/%7f"), 400, "binding_id"},

		{"semicolon", get(anInstance + "/last_operation?service_id=s;operation=task_1"), 400, "%3B"},
		{"bad escape", get(anInstance + "/last_operation?operation=%zz"), 400, "hexadecimal"},
		{"NUL in the query", get(anInstance + "/last_operation?operation=%00"), 400, "control character"},
		{"UTF-8 in the query", get(anInstance + "/last_operation?operation=%ff"), 400, "UTF-8"},
		{"accepts_incomplete", request{method: "DELETE", target: anInstance + theIDs + "&accepts_incomplete=yes"},
			400, "accepts_incomplete"},
		{"accepts_incomplete empty", request{method: "DELETE", target: anInstance + theIDs + "&accepts_incomplete="},
			400, "accepts_incomplete"},
		{"no service_id", request{method: "DELETE", target: anInstance}, 400, "service_id"},
		{"no plan_id", request{method: "DELETE", target: anInstance + "?service_id=s"}, 400, "plan_id"},

		{"empty body", put(""), 400, "empty"},
		{"blank body", put(" \r\n\t"), 400, "empty"},
		{"cut short", put(`{"service_id":"s"`), 400, "well-formed"},
		{"trailing garbage", put(aBody + "x"), 400, "well-formed"},
		{"array", put("[" + aBody + "]"), 400, "not a JSON object"},
		{"null", put("null"), 400, "not a JSON object"},
		{"invalid UTF-8", put("{\"service_id\":\"\xff\"}"), 400, "UTF-8"},
		{"duplicate", put(`{"service_id":"s","service_id":"t","plan_id":"p"}`), 400, `"service_id" twice`},
		{"duplicate by case", put(`{"service_id":"s","Service_ID":"t","plan_id":"p"}`), 400, "twice"},
		{"far too deep", put(`{"context":` + nested(20_000) + `}`), 400, "well-formed"},
		{"too long", put(`{"service_id":"` + strings.Repeat("s", maxBodyBytes) + `"}`), 413, "1048576 bytes"},
		{"service_id a number", put(`{"service_id":5,"plan_id":"p"}`), 400,
			`"service_id" of the request body must be a string`},
		{"parameters a list", put(`{"service_id":"s","plan_id":"p","parameters":[]}`), 400, "parameters"},
		{"context a string", put(`{"service_id":"s","plan_id":"p","context":"x"}`), 400, "context"},
		{"maintenance_info a string", put(`{"service_id":"s","plan_id":"p","maintenance_info":"1"}`), 400,
			`"maintenance_info" of the request body must be an object`},
		{"previous plan a number", request{method: "PATCH", target: anInstance,
			body: `{"service_id":"s","previous_values":{"plan_id":1}}`}, 400, "previous_values.plan_id"},
		{"app_guid a number", bind(`{"service_id":"s","plan_id":"p","bind_resource":{"app_guid":1}}`), 400,
			"bind_resource.app_guid"},
		{"predecessor a number", bind(`{"predecessor_binding_id":5}`), 400, "predecessor_binding_id"},
		{"predecessor a list", bind(`{"predecessor_binding_id":["b"]}`), 400, "predecessor_binding_id"},
		{"long predecessor", bind(`{"predecessor_binding_id":"` + strings.Repeat("b", 10_000) + `"}`), 400, "predecessor_binding_id"},
		{"predecessor bell", bind(`{"predecessor_binding_id":"a\u0007b"}`), 400, "predecessor_binding_id"},
		{"null service_id", put(`{"service_id":null,"plan_id":"p"}`), 400, "The service_id is missing."},
		{"no plan_id in the body", put(`{"service_id":"s"}`), 400, "The plan_id is missing."},
		{"unknown service_id", put(`{"service_id":"x","plan_id":"p"}`), 400, "The service_id is not in the catalog."},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := s.do(t, c.q)
			assert.Equal(t, c.status, got.status)
			assert.Contains(t, got.description(), c.says)
			for _, internal := range []string{"Go ", "json:", "domain.", "unmarshal"} {
				assert.NotContains(t, got.description(), internal)
			}
			assert.Empty(t, s.broker.received(), "the broker was called")
			challenge, allow := got.header.Get("WWW-Authenticate"), got.header.Get("Allow")
			assert.Equal(t, c.status == http.StatusUnauthorized, strings.HasPrefix(challenge, "Basic realm="), challenge)
			assert.Equal(t, c.status == http.StatusMethodNotAllowed, allow != "", allow)
			assert.Empty(t, got.header.Get("Location"))
		})
	}
}

func TestMajorVersion2(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2.0", "2.9", "2.17", "2.99"} {
		assert.True(t, isMajor2(version), version)
	}
	for _, version := range []string{"", "2", "2.", "v2.9", "1.9", "3.0", "2.9garbage", "2.9.1", "2.-5", "+2.9", "02.9",
		"2.99999999999999999999"} {
		assert.False(t, isMajor2(version), version)
	}
}

// nested returns a JSON value with that many levels.
func nested(levels int) string {
	return strings.Repeat(`{"a":`, levels) + "1" + strings.Repeat("}", levels)
}

func TestBodyThatDoesNotArrive(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]int{os.ErrDeadlineExceeded: 408, io.ErrUnexpectedEOF: 400} {
		w := httptest.NewRecorder()
		checkBody(func() details { return nil })(w, httptest.NewRequest("PUT", anInstance, iotest.ErrReader(err)), nil)
		assert.Equal(t, want, w.Code, "after %v: %d %s", err, w.Code, w.Body)
	}
}

// Ids reach the broker unchanged, however they are escaped.
func TestIDsReachTheBroker(t *testing.T) {
	t.Parallel()
	s := newServer(t, &recordingBroker{})
	for escaped, id := range map[string]string{
		"a%2Fb":                  "a/b",
		"b1":                     "b1",
		"a%20b":                  "a b",
		"%E2%82%AC":              "€",
		"..%2F..":                "../..",
		"a;b%3Fc%23":             "a;b?c#",
		"%25s%27%22%60":          "%s'\"`",
		strings.Repeat("a", 256): strings.Repeat("a", 256),
	} {
		s.do(t, request{method: "PUT", target: "/v2/service_instances/i%2F1/service_bindings/" + escaped, body: aBody})
		calls := s.broker.received()
		assert.True(t, len(calls) == 1 && calls[0].instanceID == "i/1" && calls[0].bindingID == id,
			"binding %s: the broker saw %+v, want instance i/1 and binding %q", escaped, calls, id)
	}
}

func TestAcceptsIncomplete(t *testing.T) {
	t.Parallel()
	s := newServer(t, &recordingBroker{})
	for value, want := range map[string]bool{
		"true": true, "True": true, "TRUE": true, "tRuE": true, "t": true, "1": true,
		"false": false, "False": false, "0": false,
	} {
		for _, q := range []request{
			{method: "PUT", target: anInstance + "?accepts_incomplete=" + value, body: aBody},
			{method: "PATCH", target: anInstance + "?accepts_incomplete=" + value, body: aBody},
			{method: "DELETE", target: anInstance + theIDs + "&accepts_incomplete=" + value},
			{method: "PUT", target: aBinding + "?accepts_incomplete=" + value, body: aBody},
			{method: "DELETE", target: aBinding + theIDs + "&accepts_incomplete=" + value},
		} {
			s.do(t, q)
			calls := s.broker.received()
			assert.True(t, len(calls) == 1 && calls[0].async == want,
				"%s %s: the broker saw %+v, want async %t", q.method, q.target, calls, want)
		}
	}
}

// Unknown fields, null instead of an absent field, and any content type are accepted. Parameters arrive unchanged.
func TestBodiesReachTheBroker(t *testing.T) {
	t.Parallel()
	s := newServer(t, &recordingBroker{})
	for _, c := range []struct{ body, parameters string }{
		{aBody, ""},
		{`{"service_id":"s","plan_id":"p","parameters":null,"context":null}`, ""},
		{`{"service_id":"s","plan_id":"p","PARAMETERS":null}`, ""},
		{` {"service_id":"s","plan_id":"p","parameters":{},"future":[1,{"x":null}]} ` + "\n", `{}`},
		{`{"service_id":"s","plan_id":"p","parameters":{"n":1e400,"a":"&","\\u0000":"\ud83d\udca9"}}`,
			`{"n":1e400,"a":"\u0026","\\u0000":"\ud83d\udca9"}`},
		{`{"service_id":"s","plan_id":"p","parameters":` + nested(63) + `}`, nested(63)},
		{`{"service_id":"s","plan_id":"p","app_guid":"` + strings.Repeat(`[{\"`, 65) + `"}`, ""},
		{`{"service_id":"s","plan_id":"p","maintenance_info":null,"bind_resource":null,"app_guid":""}`, ""},
	} {
		for _, contentType := range []string{"application/json", "application/x-www-form-urlencoded", ""} {
			got := s.do(t, request{method: "PUT", target: aBinding, body: c.body,
				header: map[string]string{"Content-Type": contentType}})
			calls := s.broker.received()
			require.Len(t, calls, 1, "%s as %q: answer %d %v", c.body, contentType, got.status, got.object)
			d := calls[0].details.(BindDetails)
			assert.True(t, d.ServiceID == "s" && d.PlanID == "p" && string(d.RawParameters) == c.parameters &&
				d.RawContext == nil, "%s as %q: the broker saw %+v, want parameters %s", c.body, contentType, d, c.parameters)
		}
	}
}

// The broker learns when a provision was received and, while the request continues, that its client has left. That is no
// error. A client that closes only the half on which it sends, as `nc -N` does, gets the response.
func TestProvisionsTellOfTheirClients(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*net.TCPConn) error{
		"gone":        (*net.TCPConn).Close,
		"half closed": (*net.TCPConn).CloseWrite,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, &recordingBroker{})
			listener := httptest.NewServer(s)
			defer listener.Close()
			begun := time.Now()
			dialled, err := net.Dial("tcp", listener.Listener.Addr().String())
			require.NoError(t, err)
			defer dialled.Close()
			conn := dialled.(*net.TCPConn)
			s.broker.act = func(ctx context.Context) error {
				calls, left := s.broker.received(), callFrom(ctx).client.Done()
				from := calls[0].from
				assert.False(t, from.Received.Before(begun) || from.Received.After(time.Now()),
					"received at %v, and the test began at %v", from.Received, begun)
				if from.Left == nil || from.Left() {
					t.Error("the client seems to have left")
					return nil
				}
				assert.NoError(t, leave(conn))
				select {
				case <-left:
				case <-time.After(limits.Stuck):
				}
				assert.True(t, from.Left() && ctx.Err() == nil, "after the client has left: %t, and the request %v", from.Left(), ctx.Err())
				return nil
			}
			_, err = io.WriteString(conn, request{method: "PUT", target: anInstance, body: aBody}.bytes())
			require.NoError(t, err)
			if name == "half closed" {
				require.NoError(t, conn.SetReadDeadline(time.Now().Add(limits.Stuck)))
				response, err := http.ReadResponse(bufio.NewReader(conn), nil)
				require.NoError(t, err)
				response.Body.Close()
				assert.Equal(t, http.StatusCreated, response.StatusCode)
			}
			require.Eventually(t, func() bool { return s.log.Count("client_left") == 1 }, limits.Stuck, time.Millisecond)
			line := s.lines(t)[0]
			assert.True(t, line["client_left"] == true && line["level"] == "INFO", "the line of the request is %v", line)
			assert.Equal(t, 1.0, s.counted(t)["mysql_broker_http_requests_total PUT /v2/service_instances/{instance_id} client left"])
		})
	}
}

// OSB API 2.17, "Request (Rotating a Service Binding)": the body may have nothing but the predecessor.
func TestPredecessorsReachTheBroker(t *testing.T) {
	t.Parallel()
	s := newServer(t, &recordingBroker{})
	for _, c := range []struct{ body, predecessor, serviceID, planID string }{
		{`{"predecessor_binding_id":"b/1"}`, "b/1", "", ""},
		{`{"predecessor_binding_id":"b/1","service_id":"s"}`, "b/1", "s", ""},
		{`{"predecessor_binding_id":"b/1","service_id":"s","plan_id":"p"}`, "b/1", "s", "p"},
		{`{"predecessor_binding_id":"","service_id":"s","plan_id":"p"}`, "", "s", "p"},
		{`{"predecessor_binding_id":null,"service_id":"s","plan_id":"p"}`, "", "s", "p"},
	} {
		got := s.do(t, request{method: "PUT", target: aBinding, body: c.body})
		calls := s.broker.received()
		require.Len(t, calls, 1, "%s: answer %d %v", c.body, got.status, got.object)
		d := calls[0].details.(BindDetails)
		assert.Equal(t, []string{c.predecessor, c.serviceID, c.planID}, []string{d.Predecessor, d.ServiceID, d.PlanID}, c.body)
	}
}
