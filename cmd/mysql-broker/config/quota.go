package config

import (
	"errors"
	"time"
)

// Quota says how often the storage of instances is measured; with 0, quotas are not enforced.
type Quota struct{ Interval time.Duration }

// DefaultQuota is the default of QUOTA_INTERVAL.
func DefaultQuota() Quota { return defaults().quota() }

func (r *reader) quota() Quota {
	each, err := time.ParseDuration(r.value("QUOTA_INTERVAL"))
	if err != nil || each != 0 && (each < time.Second || each > time.Hour) {
		r.note(errors.New("QUOTA_INTERVAL is not a duration from 1s to 1h, such as 1m, or 0"))
	}
	return Quota{each}
}
