package httpapi

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/limits"
)

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
			if d.ServiceID != "s" || d.PlanID != "p" || string(d.RawParameters) != c.parameters || d.RawContext != nil {
				t.Errorf("%s as %q: the broker saw %+v, want parameters %s", c.body, contentType, d, c.parameters)
			}
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
			begun := time.Now()
			dialled, err := net.Dial("tcp", s.address)
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
			line := s.waitForLog(t, 1)[0]
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
	for _, body := range []string{`{"predecessor_binding_id":5}`, `{"predecessor_binding_id":["b"]}`,
		`{"predecessor_binding_id":"` + strings.Repeat("b", 10_000) + `"}`, `{"predecessor_binding_id":"a\u0007b"}`} {
		got := s.do(t, request{method: "PUT", target: aBinding, body: body})
		assert.Equal(t, 400, got.status, clip(body))
		assert.Contains(t, got.description(), "predecessor_binding_id")
	}
	assert.Empty(t, s.broker.received(), "the broker saw")
}
