package testdrive

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/broker/catalog"
	"mysql-broker/provisioner/plan"
	"mysql-broker/test/limits"
)

// Response is a response of the broker: a status and one JSON object.
type Response struct {
	Status int
	Header http.Header
	Body   map[string]any
	Raw    string
}

// Expect fails the test unless the response has this status, and returns the response.
func (r Response) Expect(t testing.TB, status int) Response {
	require.Equal(t, status, r.Status, "status %d instead of %d: %s", r.Status, status, r.Raw)
	return r
}

// Operation fails the test unless the response accepts an operation, and returns its token.
func (r Response) Operation(t testing.TB) string {
	return r.Expect(t, http.StatusAccepted).String("operation")
}

// String reads a text field of the response, "" if it is absent.
func (r Response) String(field string) string {
	s, _ := r.Body[field].(string)
	return s
}

// Do sends a request as a platform of API version 2.17 would, and fails the test unless one JSON object comes back.
// body is encoded as JSON, unless it is []byte; nil sends none.
func (b *Broker) Do(t testing.TB, method, path string, body any) Response {
	return b.DoWith(t, method, path, body, nil)
}

// DoWith is Do with additional or replaced headers; an empty value removes one.
func (b *Broker) DoWith(t testing.TB, method, path string, body any, headers map[string]string) Response {
	r, err := b.Send(method, path, body, headers)
	require.NoError(t, err)
	return r
}

// Send is DoWith for goroutines, which cannot end a test.
func (b *Broker) Send(method, path string, body any, headers map[string]string) (Response, error) {
	return b.SendFor(context.Background(), method, path, body, headers)
}

// SendFor is Send by a client that disconnects when ctx ends.
func (b *Broker) SendFor(ctx context.Context, method, path string, body any, headers map[string]string) (r Response, err error) {
	content, ok := body.([]byte)
	if body != nil && !ok {
		if content, err = json.Marshal(body); err != nil {
			return r, err
		}
	}
	q, err := http.NewRequestWithContext(ctx, method, b.URL+path, bytes.NewReader(content))
	if err != nil {
		return r, err
	}
	q.SetBasicAuth(b.Username, b.Password)
	q.Header.Set("X-Broker-Api-Version", "2.17")
	if body != nil {
		q.Header.Set("Content-Type", "application/json")
	}
	for name, value := range headers {
		if q.Header.Set(name, value); value == "" {
			q.Header.Del(name)
		}
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return r, err
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		return r, fmt.Errorf("%s %s: %w", method, path, err)
	}
	r = Response{Status: answer.StatusCode, Header: answer.Header, Raw: string(raw)}
	err = json.Unmarshal(raw, &r.Body)
	if b.OnAnswer != nil {
		b.OnAnswer(r)
	}
	if err != nil {
		return r, fmt.Errorf("%s %s: status %d with a body that is not one JSON object: %q", method, path, r.Status, raw)
	}
	return r, nil
}

// Begin sends a request and does not wait. The channel yields the response. It is closed without one if none came, for
// example because the broker was killed.
func (b *Broker) Begin(method, path string, body any) <-chan Response {
	answers := make(chan Response, 1)
	go func() {
		defer close(answers)
		if r, err := b.Send(method, path, body, nil); err == nil {
			answers <- r
		}
	}()
	return answers
}

// Plan returns the ids of a plan in the project's catalog.
func Plan(t testing.TB, name string) (serviceID, planID string) {
	for _, p := range Plans(t) {
		if p.Name == name {
			return p.ServiceID, p.ID
		}
	}
	require.Fail(t, "no plan of the catalog", name)
	return "", ""
}

// Plans are those of the shipped catalog.
func Plans(t testing.TB) []plan.Plan {
	c, err := catalog.Load(Root() + "/catalog.yml")
	require.NoError(t, err)
	return c.Plans()
}

// pollInterval is how often AwaitOperation asks.
const pollInterval = 50 * time.Millisecond

// AwaitOperation polls last_operation until the operation has ended, and returns its state and every description shown
// meanwhile, in order and without repeats. Every response of an operation in progress must have one.
func (b *Broker) AwaitOperation(t testing.TB, instanceID, operation string) (state string, shown []string) {
	Eventually(t, operation+" of "+instanceID+" ends", func() bool {
		r := b.Do(t, "GET", "/v2/service_instances/"+instanceID+"/last_operation?operation="+operation, nil).
			Expect(t, http.StatusOK)
		state = r.String("state")
		says := r.String("description")
		assert.False(t, state == "in progress" && says == "", "%s is in progress and has no description: %s", operation, r.Raw)
		shown = append(shown, says)
		return state != "in progress"
	})
	return state, slices.Compact(slices.DeleteFunc(shown, func(text string) bool { return text == "" }))
}

// ExpectRefusal fails the test unless the response has this status and a description with each of the words.
func ExpectRefusal(t *testing.T, r Response, status int, words ...string) {
	r.Expect(t, status)
	for _, word := range words {
		assert.Contains(t, r.String("description"), word, "the description")
	}
}

// ExpectError fails the test unless the response is a 422 with this error code and a description.
func ExpectError(t *testing.T, r Response, code string, words ...string) {
	ExpectRefusal(t, r, 422, words...)
	assert.True(t, r.String("error") == code && r.String("description") != "",
		"the answer has not the code %s and a description: %s", code, r.Raw)
}

// ExpectEmpty fails the test unless the response is {} with this status.
func ExpectEmpty(t *testing.T, r Response, status int) {
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
	for name, at := range map[string]*time.Time{"expires_at": &expires, "renew_before": &renew} {
		text, _ := Field(r.Body, "metadata", name).(string)
		var err error
		*at, err = time.Parse("2006-01-02T15:04:05.9Z", text)
		require.False(t, err != nil || len(text) != 22, "%s is %q in %v", name, text, r.Body["metadata"])
	}
	return expires, renew
}

func ExpectConnectionLimit(t *testing.T, admin *sql.DB, account string, want int) {
	got := Read[int](t, admin, "SELECT max_user_connections FROM mysql.user WHERE user = ?", account)
	assert.Equal(t, want, got, "the account may open %d connections", got)
}

// AsksToRepeat reports whether a response says "not now", so that platforms send the request again: the broker cannot
// work, or another request on the same instance is under way.
func AsksToRepeat(r Response) bool {
	return r.Status >= http.StatusInternalServerError || r.String("error") == "ConcurrencyError"
}

// Eventually waits until condition holds, and fails the test if it never does. what says what is awaited.
func Eventually(t testing.TB, what string, condition func() bool) {
	Within(t, limits.Stuck, what, condition)
}

// Within is Eventually with another limit.
func Within(t testing.TB, limit time.Duration, what string, condition func() bool) {
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
	select {
	case v := <-ch:
		return v
	case <-time.After(limits.Stuck):
		require.Fail(t, what, "not within %v", limits.Stuck)
		panic("not reached")
	}
}
