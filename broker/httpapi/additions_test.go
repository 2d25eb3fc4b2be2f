package httpapi

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestAdditions(t *testing.T) {
	t.Parallel()
	s := newServer(t, &recordingBroker{act: func(ctx context.Context) error {
		RetryAfter(ctx, 1500*time.Millisecond)
		if err := SetField(ctx, "maintenance_info", map[string]string{"version": "1.2.3"}); err != nil {
			return err
		}
		if SetField(ctx, "bad", func() {}) == nil {
			return errors.New("a function was encoded")
		}
		return nil
	}})
	got := s.do(t, request{method: "GET", target: anInstance})
	if after := got.header.Get("Retry-After"); after != "2" {
		t.Errorf("Retry-After %q, want 2", after)
	}
	info, _ := got.object["maintenance_info"].(map[string]any)
	if info["version"] != "1.2.3" || got.object["plan_id"] != "p" || got.object["bad"] != nil {
		t.Errorf("answer %d %v, want maintenance_info beside the library's fields", got.status, got.object)
	}
	if got := s.do(t, request{method: "GET", target: "/v2/catalog"}); got.header.Get("Retry-After") != "" {
		t.Error("the next answer has a Retry-After")
	}
}

func TestAdditionsOutsideARequest(t *testing.T) {
	t.Parallel()
	RetryAfter(t.Context(), time.Second)
	if err := SetField(t.Context(), "a", 1); err != nil {
		t.Error(err)
	}
}
