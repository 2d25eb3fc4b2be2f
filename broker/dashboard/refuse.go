package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"mysql-broker/store"
)

// refusal is shown instead of a page: what the problem is, and what to do next.
type refusal struct{ Title, Sentence string }

var (
	noPage       = refusal{"Page not found", "The dashboard has no such page. Check the address."}
	noAddress    = refusal{"No address", "The address holds characters that none of the dashboard's has. Check it."}
	forOperators = refusal{"For operators only", "This page shows everything that the broker holds, and you are not one " +
		"of its operators. To see a service instance of yours, open the dashboard URL that `cf service NAME` prints."}
	// It is the same whether the instance exists or not.
	noInstance = refusal{"Service instance not found", "There is no such service instance, or you may not see it. Check " +
		"the address, and that you are a member of the space that the service instance is in."}
	unavailable = refusal{"Not available just now", "The service broker cannot reach its own database. Databases and " +
		"apps are not affected. Try again in a minute, or tell your operator."}
	failed = refusal{"Something went wrong", "The broker could not make this page. Try again; if it fails again, tell " +
		"your operator, who finds the reason in the broker's log."}
)

const retryAfter = "30" // seconds

func (d *Dashboard) refuse(w http.ResponseWriter, r *http.Request, status int, why refusal) {
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter)
	}
	d.show(w, r, status, "refusal.html", why.Title, why)
}

// fail responds to a request whose page failed. It logs the reason.
func (d *Dashboard) fail(w http.ResponseWriter, r *http.Request, doing string, err error) {
	switch ended := r.Context().Err(); {
	case errors.Is(ended, context.Canceled):
		return // the client is gone
	case ended != nil: // the session has ended, see signin.SignIn.Protect
		d.SignIn.Unavailable(w, r, fmt.Errorf("%s: %w", doing, err))
		return
	}
	d.Logger.Error("dashboard: could not "+doing, "path", r.URL.Path, "error", err)
	if errors.Is(err, store.ErrUnavailable) {
		d.refuse(w, r, http.StatusServiceUnavailable, unavailable)
		return
	}
	d.refuse(w, r, http.StatusInternalServerError, failed)
}
