package httpapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"code.cloudfoundry.org/brokerapi/v13/domain"
	"code.cloudfoundry.org/brokerapi/v13/domain/apiresponses"
	"github.com/stretchr/testify/assert"
)

// Failures that the broker built are sent unchanged, wrapped or not. For every other error, the client gets a 500
// without its text, and the log has the text.
func TestFailures(t *testing.T) {
	t.Parallel()
	const secret = "root:hunter2@tcp(db)"
	quota := apiresponses.NewFailureResponseBuilder(errors.New("No room."), 400, "quota")
	for _, c := range []struct {
		name   string
		err    error
		status int
		key    string
		says   string
		logged string
	}{
		{"bare failure", quota.Build(), 400, "", "No room.", ""},
		{"wrapped failure", fmt.Errorf("%s: %w", secret, quota.Build()), 400, "", "No room.", ""},
		{"error key kept", fmt.Errorf("x: %w", apiresponses.ErrAsyncRequired), 422, "AsyncRequired", "asynchronous", ""},
		{"failure with 5xx", apiresponses.NewFailureResponse(errors.New("All full."), 503, "full"), 503, "", "All full.",
			"All full."},
		{"instance unknown to bind", fmt.Errorf("x: %w", apiresponses.ErrInstanceDoesNotExist), 404, "", "not exist", ""},
		{"plain error", errors.New(secret), 500, "", testIdentity, secret},
		{"not built", quota, 500, "", testIdentity, "No room."},
		{"typed nil failure", (*apiresponses.FailureResponse)(nil), 500, "", testIdentity, "nil"},
		{"typed nil builder", (*apiresponses.FailureResponseBuilder)(nil), 500, "", testIdentity, "nil"},
		{"library's plain error", apiresponses.ErrPlanQuotaExceeded, 500, "", testIdentity, "quota"},
		{"no description", apiresponses.NewFailureResponse(errors.New(" "), 409, "k"), 409, "", "conflict", ""},
		{"status below 400", apiresponses.NewFailureResponse(errors.New("Odd."), 200, "odd"), 500, "", "Odd.", "Odd."},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, &recordingBroker{act: func(context.Context) error { return c.err }})
			got := s.do(t, request{method: "PUT", target: aBinding, body: aBody})
			assert.Equal(t, c.status, got.status)
			key, _ := got.object["error"].(string)
			assert.Equal(t, c.key, key)
			assert.Contains(t, got.description(), c.says)
			assert.NotContains(t, fmt.Sprint(got.object), secret)
			log := s.log.String()
			assert.Contains(t, log, c.logged)
			assert.Equal(t, c.status >= 500, strings.Contains(log, "ERROR"), log)
			assert.NotContains(t, log, "stack", "answering panicked")
		})
	}
}

// No method sends the text of an unexpected error, or with it the fields of another response.
func TestNoMethodLeaksAnError(t *testing.T) {
	t.Parallel()
	s := newServer(t, &recordingBroker{maintenance: &domain.MaintenanceInfo{Version: "1.2.3"},
		act: func(context.Context) error { return errors.New("internal") }})
	for _, c := range endpoints {
		if c.called == "" { // the catalog is at hand
			continue
		}
		got := s.do(t, c.request)
		assert.Equal(t, 500, got.status, "%s %s", c.method, c.target)
		assert.NotContains(t, got.description(), "internal")
		assert.NotContains(t, got.object, "maintenance_info", "%s %s", c.method, c.target)
	}
}

func TestPanic(t *testing.T) {
	t.Parallel()
	s := newServer(t, &recordingBroker{act: func(context.Context) error { panic("the panic's text") }})
	got := s.do(t, request{method: "PUT", target: anInstance, body: aBody})
	assert.True(t, got.status == 500 && strings.Contains(got.description(), testIdentity),
		"answer %d %v, want 500 with the request's identity", got.status, got.object)
	assert.NotContains(t, got.description(), "panic")
	assert.Contains(t, s.log.String(), "the panic's text")
	assert.Contains(t, s.log.String(), "failures_test.go", "the stack")
}

// Credentials that cannot be encoded get a 500 with a body, and are in no output.
func TestAnswerThatDoesNotEncode(t *testing.T) {
	t.Parallel()
	s := newServer(t, &recordingBroker{binding: domain.Binding{
		Credentials: map[string]any{"password": "hunter2", "fault": func() {}},
	}})
	got := s.do(t, request{method: "PUT", target: aBinding, body: aBody})
	assert.True(t, got.status == 500 && strings.Contains(got.description(), testIdentity),
		"answer %d %v, want 500 with the request's identity", got.status, got.object)
	assert.False(t, strings.Contains(s.log.String(), "hunter2"), "the log holds the password:\n%s", s.log)
}
