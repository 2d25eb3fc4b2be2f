package app

import "golang.org/x/sync/singleflight"

// together makes concurrent callers of ask share one call and its result. So public requests cost PostgreSQL and the
// servers the same, however many clients send them. To refuse some instead would let anyone block Prometheus.
// promhttp's CoalesceGather is no alternative: it returns the same figures for as long as one client reads them slowly.
func together[T any](ask func() (T, error)) func() (T, error) {
	var asking singleflight.Group
	return func() (T, error) {
		result, err, _ := asking.Do("", func() (any, error) { return ask() })
		return result.(T), err
	}
}
