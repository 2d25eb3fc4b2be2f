package httpapi

import (
	"bufio"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"code.cloudfoundry.org/brokerapi/v13/domain"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func newFuzzed(f *testing.F) *server {
	b := &recordingBroker{}
	h, err := New(b, Config{Credentials: []Credential{{"broker", testPassword}}, Logger: slog.New(slog.DiscardHandler),
		Registerer: prometheus.NewRegistry()})
	require.NoError(f, err)
	return &server{Handler: h, broker: b}
}

// answer sends a request with that head, and returns the calls that reached the broker. It fails
// the test unless the response is one JSON object and no 5xx. What net/http itself refuses is skipped: ok is false.
func (s *server) answer(t *testing.T, head string) (calls []received, status int, ok bool) {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(head + "\r\n\r\n")))
	if err != nil {
		return nil, 0, false
	}
	r.Body = http.NoBody
	r.RemoteAddr = "192.0.2.1:1234"
	got := serve(s, r)
	assert.NotNil(t, got.object, "%q: the answer %d %q is not one JSON object", head, got.status, got.body)
	assert.False(t, got.status >= 500 || got.status < 200 || got.status >= 300 && got.status < 400,
		"%q: answer %d %s", head, got.status, got.body)
	return s.broker.received(), got.status, true
}

const knownLogin = "\r\nHost: h\r\nX-Broker-API-Version: 2.17\r\nAuthorization: "

// The ids that reach the broker are valid, and those in the path.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{
		"b1", "a%2Fb", "..", "%2e%2e", "a%00", "%ff", "%E2%80%AE", "a;b", "//", "*", "a%0d%0aX: y", "%25", "ａ", "%c0%ae",
		"{instance_id}", strings.Repeat("a", 257),
	} {
		f.Add(seed, "b")
		f.Add("i", seed)
	}
	s := newFuzzed(f)
	login := knownLogin + basic("broker", testPassword)
	f.Fuzz(func(t *testing.T, instance, binding string) {
		target := "/v2/service_instances/" + instance + "/service_bindings/" + binding
		calls, status, ok := s.answer(t, "GET "+target+" HTTP/1.1"+login)
		if !ok || len(calls) == 0 {
			return
		}
		u, err := url.ParseRequestURI(target)
		require.NoError(t, err, "%q reached the broker, but is no path", target)
		// Some of it may have been a query, or another of the API's paths.
		path := strings.Split(strings.TrimPrefix(u.EscapedPath(), "/v2/service_instances/"), "/")
		checkID(t, target, path[0], calls[0].instanceID)
		if len(path) > 2 && path[1] == "service_bindings" {
			checkID(t, target, path[2], calls[0].bindingID)
		}
		assert.Equal(t, 200, status, "%q reached the broker, and was answered", target)
	})
}

func checkID(t *testing.T, target, escaped, got string) {
	want, err := url.PathUnescape(escaped)
	assert.True(t, err == nil && got == want, "%q: the broker saw the id %q, want %q", target, got, want)
	assert.False(t, got == "" || len(got) > maxIDBytes || !utf8.ValidString(got) || strings.ContainsAny(got, "\x00\r\n"),
		"%q: the broker saw the id %q", target, got)
}

// Headers are refused, or what the log gets of them is short and valid.
func FuzzHeaders(f *testing.F) {
	login := basic("broker", testPassword)
	for _, seed := range [][5]string{
		{login, "2.17", "cloudfoundry eyJ1c2VyX2lkIjoiNjgzZWE3NDgifQ==", "an-id", "10.0.0.1"},
		{login, "2.9", "cloudfoundry bnVsbA==", "", ","}, {login, "2.9", " ", "\x80", "[::1]:0"},
		{"Basic Og==", "2.", "kubernetes eyJ1aWQiOnt9fQ==", "x", "::%"}, {"Basic", "", "", "", ""},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3], seed[4])
	}
	s := newFuzzed(f)
	f.Fuzz(func(t *testing.T, authorization, version, originator, identity, forwarded string) {
		calls, status, ok := s.answer(t, "GET /v2/service_instances/i HTTP/1.1\r\nHost: h\r\nAuthorization: "+authorization+
			"\r\nX-Broker-API-Version: "+version+"\r\nX-Broker-API-Originating-Identity: "+originator+
			"\r\nX-Broker-API-Request-Identity: "+identity+"\r\nX-Forwarded-For: "+forwarded)
		if !ok || len(calls) == 0 {
			return
		}
		assert.True(t, status == 200 && strings.TrimSpace(authorization) != "",
			"the broker was called, and the answer is %d", status)
		info := calls[0].info
		for _, text := range []string{info.ID, info.CorrelationID, info.APIVersion, info.Platform, info.UserID} {
			assert.True(t, len(text) <= maxLoggedHeader, "%d bytes of a header were kept", len(text))
		}
		minor, err := strconv.Atoi(strings.TrimPrefix(info.APIVersion, "2."))
		assert.True(t, info.ID != "" && err == nil && minor >= 14, "the broker saw %+v", info) // older platforms cannot fetch
	})
}

// A query is refused, or reaches the broker with its meaning.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{
		"service_id=s&plan_id=p&operation=task_1", "operation=%00", "operation=a;b", "%zz", "operation=task_9%39",
		"operation=a&operation=b", "accepts_incomplete=tRue&service_id=s", "=&=", "operation=%ff", "+=+", "operation=+",
	} {
		f.Add(seed)
	}
	s := newFuzzed(f)
	login := knownLogin + basic("broker", testPassword)
	f.Fuzz(func(t *testing.T, query string) {
		calls, _, ok := s.answer(t, "GET /v2/service_instances/i/last_operation?"+query+" HTTP/1.1"+login)
		if !ok || len(calls) == 0 {
			return
		}
		values, err := url.ParseQuery(query)
		require.NoError(t, err, "%q reached the broker, but is no query", query)
		want := domain.PollDetails{ServiceID: values.Get("service_id"), PlanID: values.Get("plan_id"),
			OperationData: values.Get("operation")}
		assert.True(t, calls[0].details == want, "%q: the broker saw %+v, want %+v", query, calls[0].details, want)
	})
}

// A body is refused with a sentence, or brokerapi can decode it.
func FuzzCheckRequestObject(f *testing.F) {
	for _, seed := range []string{
		aBody, "", "null", "[", `{"a":1,"A":2}`, `{"service_id":5}`, `{"parameters":[]}`, `{"context":null}`,
		`{"parameters":{"a":"\u0000\\u0000"}}`, `{"previous_values":{"maintenance_info":{"public":{"a":1}}}}`,
		"{\"\xff\":1}", nested(70), `{"a"}`, `{"ſervice_id":"x","service_id":"y"}`, `{"maintenance_info":{"public":0}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, rt := range routes {
			if rt.newDetails == nil {
				continue
			}
			object, fault := checkRequestObject(body, rt.newDetails())
			if fault != "" {
				continue
			}
			d := rt.newDetails()
			assert.NoError(t, json.Unmarshal(object, d), "%q was let through, but decoding %q fails", body, object)
			for _, raw := range []json.RawMessage{d.GetRawParameters(), d.GetRawContext()} {
				assert.False(t, raw != nil && raw[0] != '{', "%q was let through with %q for an object", body, raw)
			}
		}
	})
}
