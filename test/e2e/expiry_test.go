package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"mysql-broker/test/limits"
	"mysql-broker/test/testdrive"
)

var expiryScenarios = []scenario{
	{"bindings that end by themselves", testExpiry},
}

// maxLate is how late an account may end.
const maxLate = time.Minute

// Expired accounts and their sessions end within a minute. Objects that they have defined stay, and an unbind still
// works.
func testExpiry(t *testing.T, p testdrive.Platform) {
	i := p.Provisioned(t, "shared-small", nil)
	admin := p.Admin(t)
	asked := body{"bind_resource": body{"app_guid": "an-app"}, "parameters": body{"ttl": "8s"}}
	definer := i.NewBinding()
	r := definer.Bind(t, asked).Expect(t, http.StatusCreated)
	c := i.Credentials(t, r)
	testdrive.UseAsApplication(t, c)
	expires, renew := testdrive.BindingTimes(t, r)
	left := time.Until(expires)
	assert.False(t, left > 8*time.Second || renew.After(expires) || renew.Before(expires.Add(-8*time.Second)),
		"it expires in %v, and is to be renewed at %v", left, renew)
	again := definer.Bind(t, asked).Expect(t, http.StatusOK)
	fetched := definer.Fetch(t).Expect(t, http.StatusOK)
	for name, r := range map[string]testdrive.Response{"repeated": again, "fetched": fetched} {
		at, _ := testdrive.BindingTimes(t, r)
		assert.True(t, at.Equal(expires) && i.Credentials(t, r) == c,
			"%s, it expires at %v instead of %v, or has other credentials", name, at, expires)
	}
	asked["parameters"] = body{"ttl": "9s"}
	definer.Bind(t, asked).Expect(t, http.StatusConflict)
	asked["parameters"] = body{"ttl": "8s"}
	forever, still := i.Bound(t, nil)
	assert.True(t, forever.Fetch(t).Body["metadata"] == nil, "a binding without ttl has metadata")

	busy := c.Open(t)
	ended := make(chan error, 1)
	go func() {
		_, err := busy.ExecContext(t.Context(), "SELECT SLEEP(600)")
		ended <- err
	}()
	interval := limits.Watch()
	login := testdrive.Connect(t, c.Fields(t)) // the definer's account stays, locked
	login.SetMaxIdleConns(0)
	testdrive.Eventually(t, limits.Stuck, "the account ends", func() bool { return login.PingContext(t.Context()) != nil })
	if late := time.Since(expires); late < -100*time.Millisecond {
		t.Errorf("early by %v", -late)
	} else {
		interval.Prompt(t, "an account ends", late, maxLate)
	}
	assert.Error(t, testdrive.Receive(t, ended, "the running query ends"), "the running query went on to its end")
	testdrive.ExpectRefused(t, c.Fields(t))
	db := still.Open(t)
	testdrive.Exec(t, db, "CALL add_fruit('apple pie')")
	got := testdrive.Read[int](t, db, "SELECT COUNT(*) FROM apples")
	assert.Equal(t, 3, got, "the view shows %d rows", got)
	testdrive.AwaitTrue(t, admin, `SELECT COUNT(*) = 0 FROM information_schema.processlist WHERE user = ?`, c.Username)

	testdrive.Eventually(t, limits.Stuck, "the bindings are gone", func() bool {
		return definer.Fetch(t).Status == http.StatusNotFound
	})
	testdrive.Eventually(t, limits.Stuck, "the end is recorded", func() bool {
		return definer.Bind(t, asked).Expect(t, http.StatusConflict).String("description") != ""
	})
	testdrive.ExpectRefusal(t, definer.Fetch(t), http.StatusNotFound, "has expired")
	i.NewBinding().Bind(t, body{"predecessor_binding_id": definer.BindingID}).Expect(t, http.StatusBadRequest)
	testdrive.ExpectEmpty(t, definer.Unbind(t), http.StatusOK)
	testdrive.ExpectEmpty(t, definer.Unbind(t), http.StatusGone)
	definer.Bind(t, nil).Expect(t, http.StatusCreated) // the id is free again
}
