package dashboard

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"mysql-broker/broker/signin"
)

// A request that fails because the session ended gets a response. One whose client has left gets none.
func TestFailAtTheEndOfTheSession(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	d := New(Config{Logger: log, SignIn: signin.New(signin.Config{ExternalURL: &url.URL{Scheme: "https", Host: "broker"},
		Logger: log})})
	defer d.Close()
	over, stop := context.WithDeadline(t.Context(), time.Now())
	defer stop()
	gone, leave := context.WithCancel(t.Context())
	leave()
	for _, tt := range []struct {
		ctx    context.Context
		status int
		empty  bool
	}{{over, http.StatusServiceUnavailable, false}, {gone, http.StatusOK, true}} {
		answer := httptest.NewRecorder()
		d.fail(answer, httptest.NewRequestWithContext(tt.ctx, "GET", "/dashboard/", nil), "show a page", tt.ctx.Err())
		if answer.Code != tt.status || (answer.Body.Len() == 0) != tt.empty {
			t.Errorf("%v is answered %d: %q", tt.ctx.Err(), answer.Code, answer.Body)
		}
	}
}
