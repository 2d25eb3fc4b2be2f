package e2e

import (
	"maps"
	"sync"
	"testing"

	"mysql-broker/test/testdrive"
)

const racers = 8

// raceOver sends requests at the same time, alternating between the replicas; request returns the n-th one.
func raceOver(t *testing.T, replicas []testdrive.Platform,
	request func(n int) (method, path string, body any)) []testdrive.Response {
	t.Helper()
	answers := make([]testdrive.Response, racers)
	var all sync.WaitGroup
	for n := range racers {
		all.Go(func() {
			method, path, body := request(n)
			var err error
			if answers[n], err = replicas[n%len(replicas)].Send(method, path, body, nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	return answers
}

// expectStatuses fails the test unless one answer has the status won and all others lost.
func expectStatuses(t *testing.T, answers []testdrive.Response, won, lost int) {
	t.Helper()
	got, want := map[int]int{}, map[int]int{won: 1, lost: racers - 1}
	for _, r := range answers {
		got[r.Status]++
	}
	if !maps.Equal(got, want) {
		t.Errorf("answers by status: %v instead of %v", got, want)
	}
}
