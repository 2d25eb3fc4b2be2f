package app

import (
	"errors"
	"fmt"
	"testing"

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
		if got := readinessWord(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}
