package dashboard

import (
	"testing"
	"time"
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
		if got := mood(tt.storage); got != tt.mood {
			t.Errorf("%+v: %s, wanted %s", tt.storage, got, tt.mood)
		}
	}
}
