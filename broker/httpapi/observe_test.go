package httpapi

import (
	"context"
	"testing"

	"code.cloudfoundry.org/brokerapi/v13/domain/apiresponses"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each request has one log line, which says who asked for what. Refusals are not logged as errors.
func TestRequestLine(t *testing.T) {
	t.Parallel()
	s := newServer(t, &recordingBroker{act: func(context.Context) error { return apiresponses.ErrInstanceAlreadyExists }})
	s.do(t, request{method: "PUT", target: anInstance, body: aBody, header: map[string]string{
		"X-Correlation-ID":                  "corr-1",
		"X-Broker-API-Originating-Identity": "cloudfoundry eyJ1c2VyX2lkIjoiNjgzZWE3NDgifQ==",
	}})
	lines := s.lines(t)
	require.Len(t, lines, 1)
	assert.IsType(t, 1.0, lines[0]["duration_ms"])
	assert.Subset(t, lines[0], map[string]any{
		"level": "INFO", "msg": "request", "method": "PUT", "status": 409.0,
		"route":       "/v2/service_instances/{instance_id}",
		"instance_id": "i", "request_id": testIdentity, "correlation_id": "corr-1", "api_version": "2.14",
		"platform": "cloudfoundry", "user_id": "683ea748", "reason": "instance-already-exists",
	})
}

// The operation's token is logged when the platform gets it, and when it polls.
func TestRequestLineOperation(t *testing.T) {
	t.Parallel()
	for _, q := range []request{
		{method: "GET", target: anInstance + "/last_operation?operation=task_1"},
		{method: "PUT", target: anInstance + "?accepts_incomplete=true", body: aBody},
	} {
		s := newServer(t, &recordingBroker{})
		s.do(t, q)
		assert.Equal(t, "task_1", s.lines(t)[0]["task"], "%s %s", q.method, q.target)
	}
}

func TestRequestLineWithoutIdentity(t *testing.T) {
	t.Parallel()
	b := &recordingBroker{}
	s := newServer(t, b)
	got := s.exchange(t, request{method: "GET", target: anInstance, header: map[string]string{
		"X-Broker-API-Request-Identity": ""}})
	echo := got.header.Get("X-Broker-API-Request-Identity")
	assert.Empty(t, echo, "the answer echoes %q, which the platform never sent", echo)
	id, _ := s.lines(t)[0]["request_id"].(string)
	err := uuid.Validate(id)
	assert.True(t, err == nil && b.received()[0].info.ID == id, "the log has request id %q: %v", id, err)
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	s := newServer(t, &recordingBroker{})
	for _, q := range []request{
		{method: "GET", target: anInstance},
		{method: "GET", target: "/v2/service_instances/another"},
		{method: "BREW", target: "/v2/catalog"},
		{method: "GET", target: "/v2//catalog"},
	} {
		s.do(t, q)
	}
	assert.Subset(t, s.counted(t), map[string]float64{
		"mysql_broker_http_requests_total GET /v2/service_instances/{instance_id} 200":       2,
		"mysql_broker_http_requests_total other unmatched 405":                               1,
		"mysql_broker_http_requests_total GET unmatched 404":                                 1,
		"mysql_broker_http_request_duration_seconds GET /v2/service_instances/{instance_id}": 2,
		"mysql_broker_http_request_duration_seconds other unmatched":                         1,
		"mysql_broker_http_request_duration_seconds GET unmatched":                           1,
	})
	_, err := newMetrics(s.metrics)
	assert.Error(t, err, "the metrics were registered twice")
}

// counted reads how many events the metrics have counted, by their names and labels.
func (s *server) counted(t *testing.T) map[string]float64 {
	families, err := s.metrics.Gather()
	require.NoError(t, err)
	got := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, label := range m.GetLabel() {
				name += " " + label.GetValue()
			}
			got[name] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return got
}

func TestRequestInfo(t *testing.T) {
	t.Parallel()
	s := newServer(t, &recordingBroker{})
	for _, c := range []struct {
		identity                      string
		platform, userID, name, email string
	}{
		{"cloudfoundry eyJ1c2VyX2lkIjoiNjgzZWE3NDgifQ==", "cloudfoundry", "683ea748", "", ""},
		{"kubernetes eyJ1c2VybmFtZSI6ImQiLCJ1aWQiOiJjMmRkZTI0MiJ9", "kubernetes", "c2dde242", "d", ""},
		{"other eyJ1c2VyX2lkIjoiMSIsInVzZXJfbmFtZSI6ImUiLCJlbWFpbCI6ImVAeCJ9", "other", "1", "e", "e@x"},
		{"nul eyJ1c2VyX25hbWUiOiJhXHUwMDAwYiJ9", "nul", "", "ab", ""},
		{"cloudfoundry not-base64!", "", "", "", ""},
		{"cloudfoundry bm8ganNvbg==", "", "", "", ""},
		{"", "", "", "", ""},
	} {
		s.do(t, request{method: "GET", target: anInstance, header: map[string]string{
			"X-Broker-API-Originating-Identity": c.identity,
			"X-Correlation-ID":                  "corr-1",
			"X-Broker-API-Version":              "2.17",
		}})
		want := requestInfo{ID: testIdentity, CorrelationID: "corr-1", APIVersion: "2.17", Platform: c.platform,
			UserID: c.userID, Name: c.name, Email: c.email}
		calls := s.broker.received()
		assert.True(t, len(calls) == 1 && calls[0].info == want, "%q: the broker saw %+v, want %+v", c.identity, calls, want)
	}
}
