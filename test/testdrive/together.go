package testdrive

import (
	"maps"
	"sync"
	"testing"
)

const Racers = 8

// RaceOver sends requests at the same time, alternating between the replicas; request returns the n-th one.
func RaceOver(t *testing.T, replicas []Platform,
	request func(n int) (method, path string, body any)) []Response {
	t.Helper()
	answers := make([]Response, Racers)
	var all sync.WaitGroup
	for n := range Racers {
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

// ExpectStatuses fails the test unless one answer has the status won and all others lost.
func ExpectStatuses(t *testing.T, answers []Response, won, lost int) {
	t.Helper()
	got, want := map[int]int{}, map[int]int{won: 1, lost: Racers - 1}
	for _, r := range answers {
		got[r.Status]++
	}
	if !maps.Equal(got, want) {
		t.Errorf("answers by status: %v instead of %v", got, want)
	}
}
