package httpapi

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestPanic(t *testing.T) {
	t.Parallel()
	s := newServer(t, &recordingBroker{act: func(context.Context) error { panic("the panic's text") }})
	got := s.do(t, request{method: "PUT", target: anInstance, body: aBody})
	assert.True(t, got.status == 500 && strings.Contains(got.description(), testIdentity),
		"answer %d %v, want 500 with the request's identity", got.status, got.object)
	if strings.Contains(got.description(), "panic") {
		t.Errorf("the client was told %q", got.description())
	}
	s.waitForLog(t, 1)
	log := s.log.String()
	assert.True(t, strings.Contains(log, "the panic's text") && strings.Contains(log, "recover_test.go"),
		"the log does not hold the panic and its stack:\n%s", log)
}
