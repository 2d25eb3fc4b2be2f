package testdrive

import (
	"database/sql"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/limits"
)

// ExpectRefusal fails the test unless the response has this status and a description with each of the words.
func ExpectRefusal(t *testing.T, r Response, status int, words ...string) {
	t.Helper()
	r.Expect(t, status)
	for _, word := range words {
		assert.Contains(t, r.String("description"), word, "the description")
	}
}

// ExpectError fails the test unless the response is a 422 with this error code and a description.
func ExpectError(t *testing.T, r Response, code string, words ...string) {
	t.Helper()
	ExpectRefusal(t, r, 422, words...)
	assert.True(t, r.String("error") == code && r.String("description") != "",
		"the answer has not the code %s and a description: %s", code, r.Raw)
}

// ExpectEmpty fails the test unless the response is {} with this status.
func ExpectEmpty(t *testing.T, r Response, status int) {
	t.Helper()
	r.Expect(t, status)
	assert.Equal(t, 0, len(r.Body), "the body is not {}: %s", r.Raw)
}

// Field walks down objects, to nil where there is nothing.
func Field(object map[string]any, names ...string) any {
	var value any = object
	for _, name := range names {
		inner, _ := value.(map[string]any)
		value = inner[name]
	}
	return value
}

// BindingTimes reads the metadata of a response.
func BindingTimes(t *testing.T, r Response) (expires, renew time.Time) {
	t.Helper()
	for name, at := range map[string]*time.Time{"expires_at": &expires, "renew_before": &renew} {
		text, _ := Field(r.Body, "metadata", name).(string)
		var err error
		*at, err = time.Parse("2006-01-02T15:04:05.9Z", text)
		require.False(t, err != nil || len(text) != 22, "%s is %q in %v", name, text, r.Body["metadata"])
	}
	return expires, renew
}

func ExpectConnectionLimit(t *testing.T, admin *sql.DB, account string, want int) {
	t.Helper()
	got := Read[int](t, admin, "SELECT max_user_connections FROM mysql.user WHERE user = ?", account)
	assert.Equal(t, want, got, "the account may open %d connections", got)
}

// AsksToRepeat reports whether a response says "not now", so that platforms send the request again: the broker cannot
// work, or another request on the same instance is under way.
func AsksToRepeat(r Response) bool {
	return r.Status >= http.StatusInternalServerError || r.String("error") == "ConcurrencyError"
}

// Eventually waits until condition holds, and fails the test if it does not within limit. what says what is awaited.
func Eventually(t testing.TB, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); ; {
		if condition() {
			return
		}
		require.False(t, time.Now().After(deadline), "%s: not within %v", what, limit)
		<-tick.C
	}
}

// Receive returns the next value of a channel, or the zero value if it is closed. It fails the test if nothing arrives;
// what says what was expected.
func Receive[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(limits.Stuck):
		t.Fatalf("%s: not within %v", what, limits.Stuck)
		panic("not reached")
	}
}
