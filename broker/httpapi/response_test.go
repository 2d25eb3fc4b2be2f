package httpapi

import (
	"strings"
	"testing"

	"code.cloudfoundry.org/brokerapi/v13/domain"
	"github.com/stretchr/testify/assert"
)

// Credentials that cannot be encoded get a 500 with a body, and are in no output.
func TestAnswerThatDoesNotEncode(t *testing.T) {
	t.Parallel()
	s := newServer(t, &recordingBroker{binding: domain.Binding{
		Credentials: map[string]any{"password": "hunter2", "fault": func() {}},
	}})
	got := s.do(t, request{method: "PUT", target: aBinding, body: aBody})
	assert.True(t, got.status == 500 && strings.Contains(got.description(), testIdentity),
		"answer %d %v, want 500 with the request's identity", got.status, got.object)
	s.waitForLog(t, 1)
	assert.False(t, strings.Contains(s.log.String(), "hunter2"), "the log holds the password:\n%s", s.log)
}
