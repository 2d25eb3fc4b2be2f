package app

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/store"
)

// Each word tells operators of /readyz something else to do.
func TestReadinessWords(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"ok":          nil,
		"read-only":   fmt.Errorf("begin: %w", store.ErrReadOnly),
		"full":        fmt.Errorf("begin: %w", store.ErrFull),
		"unreachable": fmt.Errorf("begin: %w", errors.New("connection refused")),
	} {
		assert.Equal(t, want, readinessWord(err), "%v", err)
	}
}
