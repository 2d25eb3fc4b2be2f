package plan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

var small = Plan{ID: "1", Name: "small", ServiceID: "mysql", Kind: Dedicated, Async: AsyncPreferred, MaxStorageMB: 3}

// TestSet looks up plans that the catalog has, and plans that were removed from it.
func TestSet(t *testing.T) {
	t.Parallel()
	set := Set{small, {ID: "2", Name: "large"}}
	for _, test := range []struct {
		name      string
		got, want Plan
	}{
		{"in the catalog", set.Get("1"), small},
		{"in the catalog, with other facts", set.Of("1", "other", Shared), small},
		{"removed", set.Get("3"), Plan{ID: "3", Name: "3", Removed: true}},
		{"removed from none", Set(nil).Get("1"), Plan{ID: "1", Name: "1", Removed: true}},
		{"removed, of a shared instance", set.Of("3", "mysql", Shared),
			Plan{ID: "3", Name: "3", Removed: true, ServiceID: "mysql", Kind: Shared, Async: AsyncNever}},
		{"removed, of a dedicated instance", set.Of("3", "mysql", Dedicated),
			Plan{ID: "3", Name: "3", Removed: true, ServiceID: "mysql", Kind: Dedicated, Async: AsyncRequired}},
	} {
		assert.True(t, test.got == test.want, "%s: %+v instead of %+v", test.name, test.got, test.want)
	}
}

func TestQuota(t *testing.T) {
	t.Parallel()
	got := small.Quota()
	assert.True(t, got == 3*1024*1024, "%d bytes instead of 3 MiB", got)
	assert.Zero(t, (Set{}).Get("removed").Quota(), "bytes for a removed plan")
}

func TestTTL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"1s": time.Second, "8h": 8 * time.Hour, "1h30m": 90 * time.Minute,
		"90m": 90 * time.Minute, "1d12h": 36 * time.Hour, "3650d": 3650 * 24 * time.Hour, "0d8h": 8 * time.Hour,
		"000000000000000000000000000001s": time.Second} {
		got, err := ParseTTL(text)
		assert.True(t, err == nil && time.Duration(got) == want, "ParseTTL(%q) = %v, %v", text, time.Duration(got), err)
		again, err := ParseTTL(got.String())
		assert.True(t, err == nil && again == got, "%q is written as %q", text, got)
	}
	for _, text := range []string{"", "0", "0s", "0d0h", "-8h", "+8h", "1ns", "1ms", "8 h", " 8h", "8h ", "8", "h", "8H", "1.5h",
		"1000000000h", "9223372036854775807s", "99999999999999999999s", "3651d", "3650d1s", "1w", "8h\n", "٨h",
		"1000000d1000000d1000000d1000000d1000000d"} {
		_, err := ParseTTL(text)
		assert.Error(t, err, "%q", text)
	}
}
