package app

import (
	"encoding/json"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"mysql-broker/broker/dashboard"
)

// routes serves what is the broker's own, the dashboard unless it is nil, and leaves all else to the API. Paths are
// compared as they came: a ServeMux would redirect untidy ones, which platforms take for an answer.
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

// reads answers requests that read, and refuses others. RFC 9110 section 15.5.6 wants the Allow.
func reads(w http.ResponseWriter, r *http.Request, answer func()) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		answer()
		return
	}
	w.Header().Set("Allow", "GET, HEAD")
	writeJSON(w, http.StatusMethodNotAllowed, map[string]string{"description": "This path takes GET and HEAD only."})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v) // a client that went away needs no answer
}
