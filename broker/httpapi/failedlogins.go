package httpapi

import (
	"net/netip"
	"sync"
	"time"
)

// A source may fail to log in so often at once, and then once in each interval. A broker password of a person's
// choosing stands up to 14,400 guesses a day.
const (
	failuresAtOnce  = 10
	failureInterval = 6 * time.Second
)

// maxSources bounds how many sources are remembered in each of two generations; 10,000 take some 1 MiB.
const maxSources = 10_000

// failedLogins limits how fast passwords can be guessed. Sources that have not failed of late take no memory, and
// nobody's failures count against another source.
//
// Each source's state is the time at which all its failures will have been forgiven (the generic cell rate
// algorithm, which is a token bucket in one number). Failures in older are no younger than those in recent. When
// recent is full, or old enough that all in older is forgiven, older is dropped and recent takes its place.
type failedLogins struct {
	mu            sync.Mutex
	recent, older map[netip.Addr]time.Time
	turned        time.Time // when recent was last empty
}

// admit decides about a login of which is known whether it has the right password. If wait is more than zero the
// source is over the limit: the login must be refused whichever it is, for at least so long. Else a wrong one is
// counted, and last tells whether it was the last one for now. Deciding and counting are one step, so that guesses
// made at the same time are no more than the limit either.
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
	if f.recent == nil || len(f.recent) >= maxSources || now.Sub(f.turned) > full {
		f.recent, f.older, f.turned = map[netip.Addr]time.Time{}, f.recent, now
	}
	f.recent[source] = after
	return 0, after.Add(failureInterval).Sub(now) > full
}
