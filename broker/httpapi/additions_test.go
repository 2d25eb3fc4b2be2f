package httpapi

import (
	"context"
	"errors"
	"testing"
	"time"

	"code.cloudfoundry.org/brokerapi/v13/domain"
	"github.com/stretchr/testify/assert"
)

// Fields that brokerapi lacks reach the platform.
func TestAdditions(t *testing.T) {
	t.Parallel()
	b := &recordingBroker{retryAfter: 1500 * time.Millisecond, maintenance: &domain.MaintenanceInfo{Version: "1.2.3"}}
	s := newServer(t, b)
	for _, target := range []string{anInstance, aBinding} {
		got := s.do(t, request{method: "GET", target: target + "/last_operation"})
		after := got.header.Get("Retry-After")
		assert.True(t, after == "2" && got.object["maintenance_info"] == nil,
			"%s: Retry-After %q, want 2; %v", target, after, got.object)
	}
	got := s.do(t, request{method: "GET", target: anInstance})
	info, _ := got.object["maintenance_info"].(map[string]any)
	assert.True(t, info["version"] == "1.2.3" && got.object["plan_id"] == "p" && got.header.Get("Retry-After") == "",
		"answer %d %v, want maintenance_info beside the library's fields", got.status, got.object)
	if got := s.do(t, request{method: "GET", target: "/v2/catalog"}); got.header.Get("Retry-After") != "" {
		t.Error("the next answer has a Retry-After")
	}
}

// A refusal has none of the fields of other responses.
func TestNoAdditionsToARefusal(t *testing.T) {
	t.Parallel()
	s := newServer(t, &recordingBroker{maintenance: &domain.MaintenanceInfo{Version: "1.2.3"},
		act: func(context.Context) error { return errors.New("internal") }})
	got := s.do(t, request{method: "GET", target: anInstance})
	assert.True(t, got.status == 500 && got.object["maintenance_info"] == nil, "answer %d %v", got.status, got.object)
}
