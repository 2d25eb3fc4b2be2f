package httpapi

import (
	"net/netip"
	"sync"
	"time"
)

// A source can fail this often at once, and then once in each interval. Even a password that a person has chosen
// withstands 14,400 guesses a day.
const (
	failuresAtOnce  = 10
	failureInterval = 6 * time.Second
)

// maxSources limits the sources in each of two generations; 10,000 take about 1 MiB.
const maxSources = 10_000

// failedLogins limits the rate of guesses. Sources without recent failures take no memory, and the failures of one
// source do not affect another.
//
// A source's state is the time at which all its failures expire (the generic cell rate algorithm, which is a token
// bucket in one number). New failures go into recent. When recent is full, or so old that all failures in older have
// expired, older is dropped and recent takes its place.
type failedLogins struct {
	mu            sync.Mutex
	recent, older map[netip.Addr]time.Time
	begun         time.Time // when recent was empty
}

// admit decides about a login whose password was checked. If wait is more than zero, the source is over the limit:
// refuse the login, right or wrong, for at least that long. Otherwise admit counts a wrong login, and last reports
// whether it used up the limit. Deciding and counting are one step, so that the limit holds for concurrent guesses too.
func (f *failedLogins) admit(source netip.Addr, right bool, now time.Time) (wait time.Duration, last bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	forgiven, ok := f.recent[source]
	if !ok {
		forgiven = f.older[source]
	}
	if forgiven.Before(now) {
		forgiven = now
	}
	const full = failuresAtOnce * failureInterval
	after := forgiven.Add(failureInterval)
	if wait = after.Sub(now) - full; wait > 0 || right {
		return max(wait, 0), false
	}
	if f.recent == nil || len(f.recent) >= maxSources || now.Sub(f.begun) > full {
		f.recent, f.older, f.begun = map[netip.Addr]time.Time{}, f.recent, now
	}
	f.recent[source] = after
	return 0, after.Add(failureInterval).Sub(now) > full
}
