package app

import (
	"encoding/json"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"mysql-broker/broker/dashboard"
)

// routes serves the broker's own paths and the dashboard, unless that is nil, and passes the rest to the API. It
// compares paths exactly: a ServeMux would redirect unclean ones, and platforms would take the redirect for a response.
func routes(api http.Handler, registry prometheus.Gatherer, ready func() (readiness, error),
	pages *dashboard.Dashboard) http.Handler {
	metrics := promhttp.HandlerFor(prometheus.GathererFunc(together(registry.Gather)), promhttp.HandlerOpts{})
	ready = together(ready)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/healthz":
			reads(w, r, func() { writeJSON(w, http.StatusOK, map[string]string{"status": "ok"}) })
		case "/readyz":
			reads(w, r, func() { writeReadiness(w, ready) })
		case "/metrics":
			reads(w, r, func() { metrics.ServeHTTP(w, r) })
		default:
			if pages != nil && dashboard.Serves(r.URL.Path) {
				pages.ServeHTTP(w, r)
				return
			}
			api.ServeHTTP(w, r)
		}
	})
}

// reads serves GET and HEAD, and refuses other methods. RFC 9110 section 15.5.6 requires the Allow header.
func reads(w http.ResponseWriter, r *http.Request, serve func()) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		serve()
		return
	}
	w.Header().Set("Allow", "GET, HEAD")
	writeJSON(w, http.StatusMethodNotAllowed, map[string]string{"description": "This path takes GET and HEAD only."})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v) // an error means that the client is gone
}
