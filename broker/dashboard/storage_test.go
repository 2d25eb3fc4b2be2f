package dashboard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestMoodFollowsTheLevelsOfTheQuota(t *testing.T) {
	t.Parallel()
	since := time.Now()
	for _, tt := range []struct {
		storage storage
		mood    string
	}{
		{storage{Bytes: 0, Quota: 1000}, "good"},
		{storage{Bytes: 799, Quota: 1000}, "good"},
		{storage{Bytes: 800, Quota: 1000}, "warn"},
		{storage{Bytes: 999, Quota: 1000}, "warn"},
		{storage{Bytes: 1000, Quota: 1000}, "bad"},
		{storage{Bytes: 960, Quota: 1000, OverSince: &since}, "bad"},
		{storage{Bytes: 1000}, "good"}, // where there is no quota
	} {
		assert.Equal(t, tt.mood, mood(tt.storage), "%+v", tt.storage)
	}
}
