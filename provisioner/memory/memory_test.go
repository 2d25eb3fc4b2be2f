package memory

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLimitsOfGroups(t *testing.T) {
	t.Parallel()
	type files map[string]string
	const unlimited = "9223372036854771712\n"
	for name, host := range map[string]struct {
		groups string
		files  files
		want   int64
	}{
		"its own group":     {"0::/\n", files{"memory.max": "1000\n"}, 1000},
		"one above it":      {"0::/a/b\n", files{"a/memory.max": "900\n", "a/b/memory.max": "1000\n"}, 900},
		"no limit":          {"0::/a\n", files{"a/memory.max": "max\n"}, math.MaxInt64},
		"no groups":         {"", nil, math.MaxInt64},
		"version 1":         {"5:cpu:/x\n4:memory:/a\n", files{"memory/a/memory.limit_in_bytes": "1000\n"}, 1000},
		"1, no limit":       {"4:memory:/\n", files{"memory/memory.limit_in_bytes": unlimited}, math.MaxInt64},
		"1, in a container": {"4:memory:/not/mounted\n0::/\n", files{"memory/memory.limit_in_bytes": "1000\n"}, 1000},
	} {
		dir := t.TempDir()
		write := func(name, text string) string {
			path := filepath.Join(dir, name)
			err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600))
			require.NoError(t, err)
			return path
		}
		for file, text := range host.files {
			write("mounted/"+file, text)
		}
		assert.Equal(t, host.want, ofGroups(write("cgroup", host.groups), filepath.Join(dir, "mounted")), name)
	}
}

// Copies that have begun can always have their long rows, one after the other.
func TestBudget(t *testing.T) {
	t.Parallel()
	b := NewBudget(idleBytes + 90<<20) // 30 MiB for one copy, 60 MiB for rows
	require.True(t, b.TryBegin() && !b.TryBegin(), "there is memory for one copy")
	assert.True(t, b.Definitions() == 60<<20/16 && (*Budget)(nil).Definitions() == 0, "definitions")
	waited := 0
	reserve := func(ctx context.Context, bytes int64) (func(), error) {
		return b.Reserve(ctx, bytes, func() error { waited++; return nil })
	}
	_, err := reserve(t.Context(), 61<<20)
	assert.ErrorIs(t, err, ErrTooLarge, "more than there is")
	release, err := reserve(t.Context(), 40<<20)
	require.True(t, err == nil && waited == 0, "%v, waited %d times", err, waited)
	ended, end := context.WithCancel(t.Context())
	end()
	_, err = reserve(ended, 30<<20)
	assert.True(t, errors.Is(err, context.Canceled) && waited == 1,
		"rows that others have the memory for: %v, waited %d times", err, waited)
	release()
	_, err = reserve(t.Context(), 60<<20)
	assert.True(t, err == nil && waited == 1, "all of it: %v", err)
	b.End()
	assert.True(t, b.TryBegin(), "the next copy does not begin")
	least := NewBudget(1)
	assert.True(t, least.TryBegin() && !least.TryBegin(), "a process with too little memory copies one at a time")
	none := NewBudget(0)
	assert.True(t, none == nil && none.TryBegin(), "a process without a limit")
}
