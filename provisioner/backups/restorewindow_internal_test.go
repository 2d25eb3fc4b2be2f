package backups

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"mysql-broker/store"
)

func TestPeriods(t *testing.T) {
	t.Parallel()
	at := func(seconds float64) time.Time {
		return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
	}
	window := func(log string, from, until float64) store.Window {
		return store.Window{LogID: log, From: at(from), Until: at(until)}
	}
	for what, test := range map[string]struct {
		all  []store.Window
		want string
	}{
		"within full seconds": {[]store.Window{window("l", 0.2, 9.9)}, "between 2026-01-01T00:00:01Z and 2026-01-01T00:00:09Z"},
		"two backups of one archive": {[]store.Window{window("l", 5, 9), window("l", 1, 9)},
			"between 2026-01-01T00:00:01Z and 2026-01-01T00:00:09Z"},
		"two archives": {[]store.Window{window("l", 5, 9), window("k", 1, 3)},
			"between 2026-01-01T00:00:05Z and 2026-01-01T00:00:09Z, or between 2026-01-01T00:00:01Z and 2026-01-01T00:00:03Z"},
		"less than a second": {[]store.Window{window("l", 5.1, 5.9)}, ""},
	} {
		assert.Equal(t, test.want, possible(test.all), what)
	}
}
