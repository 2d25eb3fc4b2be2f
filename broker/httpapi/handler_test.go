package httpapi

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNewRefusesUnsafeCredentials(t *testing.T) {
	t.Parallel()
	for name, credentials := range map[string][]Credential{
		"none":           nil,
		"empty user":     {{"", "p"}},
		"empty password": {{"u", "p"}, {"v", ""}},
		"colon":          {{"u:v", "p"}},
	} {
		h, err := New(&recordingBroker{}, Config{Credentials: credentials})
		assert.True(t, err != nil && h == nil, "%s: handler %v, error %v", name, h, err)
	}
}
