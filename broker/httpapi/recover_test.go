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
	assert.NotContains(t, got.description(), "panic")
	s.waitForLog(t, 1)
	assert.Contains(t, s.log.String(), "the panic's text")
	assert.Contains(t, s.log.String(), "recover_test.go", "the stack")
}
