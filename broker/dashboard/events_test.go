package dashboard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/periodic"
	"mysql-broker/store"
)

// An open page receives only changes, also after an outage of PostgreSQL.
func TestOpenPageHearsOfChanges(t *testing.T) {
	t.Parallel()
	var now string // "" while the store is away
	page := openPage{id: "a", status: periodic.Status{Log: slog.New(slog.DiscardHandler)},
		read: func(_ context.Context, id string) (store.Activity, error) {
			assert.Equal(t, "a", id)
			if now == "" {
				return store.Activity{}, errors.New("away")
			}
			return store.Activity{State: store.Creating, Latest: store.Operation{ID: 1, State: store.InProgress,
				Description: now}}, nil
		}}
	for n, step := range []struct {
		now    string
		isNews bool
	}{{"", false}, {"one", true}, {"one", false}, {"two", true}, {"", false}, {"two", false}, {"three", true}} {
		now = step.now
		a, isNews := page.news(t.Context())
		assert.False(t, isNews != step.isNews || isNews && a.Latest.Description != now, "step %d: %t, %+v", n+1, isNews, a)
	}
}

// A stream beyond the limit is refused with a Retry-After.
func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	d := &Dashboard{}
	for n := range maxStreams + maxPersonal {
		person := fmt.Sprint(n / maxPersonal)
		assert.False(t, (n%maxPersonal == 0) && n > 0 && d.streams.begin(fmt.Sprint(n/maxPersonal-1)),
			"a person gets more than %d", maxPersonal)
		assert.Equal(t, n < maxStreams, d.streams.begin(person), "number %d", n)
	}
	w := httptest.NewRecorder()
	assert.NoError(t, d.stream(w, httptest.NewRequest(http.MethodGet, "/", nil), "a"))
	assert.Equal(t, http.StatusServiceUnavailable, w.Code)
	assert.NotEmpty(t, w.Header().Get("Retry-After"))
	d.streams.end("0")
	assert.True(t, d.streams.begin("0"), "a page that was closed still counts")
}
