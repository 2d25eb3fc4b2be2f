package e2e

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"

	"mysql-broker/test/testdrive"
)

var raceScenarios = []scenario{
	{"race of identical provisions", testSameProvisions},
	{"race of different provisions", testDifferentProvisions},
	{"race of identical provisions in the background", testSameBackgroundProvisions},
	{"race of provisions and deprovisions", testProvisionsAndDeprovisions},
	{"race of identical binds", testSameBinds},
	{"race of different binds", testDifferentBinds},
	{"race of deletions", testDeletions},
	{"race of updates", testUpdates},
	{"race of binds and a deprovision", testBindsAndDeprovision},
}

const racers = 8

// race sends requests at the same time; request says what the n-th one is.
func race(t *testing.T, p platform, request func(n int) (method, path string, body any)) []testdrive.Response {
	t.Helper()
	return raceOver(t, []platform{p}, request)
}

// raceOver is race with the n-th request to the n-th replica, in turn.
func raceOver(t *testing.T, replicas []platform,
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

func testSameProvisions(t *testing.T, p platform) {
	i := p.newInstance(t, "shared-small")
	expectStatuses(t, race(t, p, func(int) (string, string, any) {
		return "PUT", i.path(), i.provisionBody(nil)
	}), http.StatusCreated, http.StatusOK)
}

func testDifferentProvisions(t *testing.T, p platform) {
	i := p.newInstance(t, "shared-small")
	expectStatuses(t, race(t, p, func(n int) (string, string, any) {
		return "PUT", i.path(), i.provisionBody(body{"space_guid": strconv.Itoa(n)})
	}), http.StatusCreated, http.StatusConflict)
}

// Whoever comes while the first one is at it gets its token, whoever comes later a 200.
func testSameBackgroundProvisions(t *testing.T, p platform) {
	i := p.newInstance(t, "shared-async")
	tokens := map[string]bool{}
	for _, r := range race(t, p, func(int) (string, string, any) {
		return "PUT", i.path() + later, i.provisionBody(nil)
	}) {
		if r.Status != http.StatusOK {
			tokens[r.Expect(t, http.StatusAccepted).String("operation")] = true
		}
	}
	if len(tokens) != 1 {
		t.Fatalf("the requests started %v", tokens)
	}
	for token := range tokens {
		i.await(t, token)
	}
}

// Whatever the order, the last deletion finds nothing or removes everything.
func testProvisionsAndDeprovisions(t *testing.T, p platform) {
	i := p.newInstance(t, "shared-small")
	for _, r := range race(t, p, func(n int) (string, string, any) {
		if n%2 == 0 {
			return "DELETE", i.deletion(i.path(), now), nil
		}
		return "PUT", i.path(), i.provisionBody(nil)
	}) {
		switch r.Status {
		case http.StatusOK, http.StatusCreated, http.StatusGone, http.StatusUnprocessableEntity:
		default:
			t.Errorf("a request was answered %d %s", r.Status, r.Raw)
		}
	}
	if r := i.deprovision(t, now); r.Status != http.StatusOK {
		r.Expect(t, http.StatusGone)
	}
	expectEmpty(t, i.deprovision(t, now), http.StatusGone)
}

func testSameBinds(t *testing.T, p platform) {
	b := p.provisioned(t, "shared-small", nil).newBinding()
	answers := race(t, p, func(int) (string, string, any) { return "PUT", b.path(), b.with(nil) })
	expectStatuses(t, answers, http.StatusCreated, http.StatusOK)
	c := b.credentials(t, answers[0])
	for _, r := range answers {
		if b.credentials(t, r) != c {
			t.Error("the answers have different credentials")
		}
	}
	c.open(t)
}

func testDifferentBinds(t *testing.T, p platform) {
	b := p.provisioned(t, "shared-small", nil).newBinding()
	expectStatuses(t, race(t, p, func(n int) (string, string, any) {
		return "PUT", b.path(), b.with(body{"bind_resource": body{"app_guid": strconv.Itoa(n)}})
	}), http.StatusCreated, http.StatusConflict)
}

// Several deletions may all have succeeded, but each asked for something that was there or not.
func testDeletions(t *testing.T, p platform) {
	i := p.provisioned(t, "shared-small", nil)
	b, c := i.bound(t, nil)
	for _, path := range []string{b.path(), i.path()} {
		answers := race(t, p, func(int) (string, string, any) { return "DELETE", i.deletion(path, now), nil })
		won := 0
		for _, r := range answers {
			switch r.Status {
			case http.StatusOK:
				won++
			case http.StatusGone:
			default:
				t.Errorf("a deletion was answered %d %s", r.Status, r.Raw)
			}
		}
		if won == 0 {
			t.Error("no deletion succeeded")
		}
	}
	if databaseExists(t, p, c.Database) || accountExists(t, p, c.Username) {
		t.Error("something is left on the server")
	}
}

// The same update is one operation, however often it is asked for.
func testUpdates(t *testing.T, p platform) {
	i := p.provisioned(t, "shared-small", nil)
	_, c := i.bound(t, nil)
	_, planID := testdrive.Plan(t, "shared-large")
	for _, r := range race(t, p, func(int) (string, string, any) {
		return "PATCH", i.path(), body{"service_id": i.serviceID, "plan_id": planID}
	}) {
		r.Expect(t, http.StatusOK)
	}
	expectConnectionLimit(t, p.admin(t), c.Username, 60)
}

// Whatever the order, no account may outlive the instance.
func testBindsAndDeprovision(t *testing.T, p platform) {
	i := p.provisioned(t, "shared-small", nil)
	answers := race(t, p, func(n int) (string, string, any) {
		if n == racers/2 {
			return "DELETE", i.deletion(i.path(), now), nil
		}
		b := i.newBinding()
		return "PUT", b.path(), b.with(nil)
	})
	answers[racers/2].Expect(t, http.StatusOK)
	for _, r := range slices.Delete(answers, racers/2, racers/2+1) {
		switch r.Status {
		case http.StatusCreated:
			if c := i.credentials(t, r); accountExists(t, p, c.Username) {
				t.Error("an account is left on the server")
			}
		case http.StatusNotFound, http.StatusUnprocessableEntity:
		default:
			t.Errorf("a bind was answered %d %s", r.Status, r.Raw)
		}
	}
}
