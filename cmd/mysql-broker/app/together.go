package app

import "golang.org/x/sync/singleflight"

// together returns ask for many callers: those who come while one is answered get the same answer. So what anyone may
// ask costs PostgreSQL and the servers the same however many ask. Refusing some instead would let anyone shut
// Prometheus out, and promhttp's CoalesceGather hands out the same figures for as long as somebody reads them slowly.
func together[T any](ask func() (T, error)) func() (T, error) {
	var asking singleflight.Group
	return func() (T, error) {
		answer, err, _ := asking.Do("", func() (any, error) { return ask() })
		return answer.(T), err
	}
}
