package quota_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/quota"
)

func TestLevel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		percent      int64
		before, want int
	}{
		{0, 0, 0}, {79, 0, 0}, {80, 0, 80}, {89, 80, 80}, {90, 80, 90}, {99, 90, 90}, {100, 90, 100}, {250, 0, 100},
		{99, 100, 100}, {95, 100, 100}, {94, 100, 90}, {84, 100, 80}, {74, 100, 0}, {0, 100, 0},
		{85, 90, 90}, {84, 90, 80}, {75, 80, 80}, {74, 80, 0}, {95, 90, 90}, {75, 0, 0},
	} {
		assert.Equal(t, c.want, quota.Level(c.percent, 100, c.before), "%d %% after level %d: level", c.percent, c.before)
	}
	assert.Equal(t, 90, quota.Level(100<<20-1, 100<<20, 90), "one byte less than the quota: level")
}
