package dashboard

import (
	"context"
	"time"

	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/quota"
	"mysql-broker/provisioner/steps"
	"mysql-broker/store"
)

// storage is the part of a page about an instance's data: their size, the quota, and the history.
type storage struct {
	Known     bool // whether there is a figure
	Bytes     int64
	Quota     int64 // 0 for none
	At        time.Time
	OverSince *time.Time
	Mood      string
	Ranges    []spanLink
	Plot      *plot // nil before the first measurement
}

// spans are the time ranges of a plot.
var spans = []struct {
	Key, Name string
	Length    time.Duration
}{
	{"day", "24 hours", 24 * time.Hour},
	{"week", "7 days", 7 * 24 * time.Hour},
	{"month", "30 days", 30 * 24 * time.Hour},
}

type spanLink struct {
	Key, Name string
	Current   bool
}

// storage reads the quota's measurements. What the server has just reported is newer.
func (d *Dashboard) storage(ctx context.Context, i store.Instance, of plan.Plan, now steps.Inspection,
	span string) (storage, error) {
	s := storage{Quota: of.Quota()}
	last, measured, err := d.Provisioner.Storage(ctx, i)
	if err != nil {
		return s, err
	}
	s.Known, s.Bytes, s.At, s.OverSince = measured, last.Bytes, last.MeasuredAt, last.OverSince
	s.update(now)
	s.Mood = mood(s)
	if !measured {
		return s, nil
	}
	length := spans[0].Length
	for _, choice := range spans {
		if choice.Key == span {
			length = choice.Length
		}
	}
	for _, choice := range spans {
		s.Ranges = append(s.Ranges, spanLink{choice.Key, choice.Name, choice.Length == length})
	}
	to := time.Now()
	from := to.Add(-length)
	samples, err := d.Store.Usage.History(ctx, i.ID, from)
	if err != nil {
		return s, err
	}
	samples = append(samples, store.UsageSample{At: s.At, Bytes: s.Bytes})
	s.Plot = newPlot(samples, s.Quota, from, to)
	return s, nil
}

// update replaces the measurement by what the server has just reported, if it has.
func (s *storage) update(now steps.Inspection) {
	if !now.At.IsZero() {
		s.Known, s.Bytes, s.At = true, quota.Used(now.Size, s.Quota, s.OverSince != nil), now.At
	}
}

// mood is the severity of the storage in relation to the quota, if there is one.
func mood(s storage) string {
	level := 0
	if s.Quota > 0 {
		level = quota.Level(s.Bytes, s.Quota, 0)
	}
	switch {
	case s.OverSince != nil || level == quota.Over:
		return "bad"
	case level > 0:
		return "warn"
	}
	return "good"
}
