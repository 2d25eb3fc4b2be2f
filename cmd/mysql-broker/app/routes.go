package app

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"mysql-broker/broker/dashboard"
	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
)

// routes serves what is the broker's own, the dashboard unless it is nil, and leaves all else to the API. Paths are
// compared as they came: a ServeMux would redirect untidy ones, which platforms take for an answer.
func routes(api http.Handler, registry *prometheus.Registry, h health, pages *dashboard.Dashboard) http.Handler {
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/healthz":
			writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
		case "/readyz":
			h.ready(w, r)
		case "/metrics":
			metrics.ServeHTTP(w, r)
		default:
			if pages != nil && dashboard.Serves(r.URL.Path) {
				pages.ServeHTTP(w, r)
				return
			}
			api.ServeHTTP(w, r)
		}
	})
}

// readyTimeout bounds the wait for PostgreSQL; the shared servers have a bound of their own.
const readyTimeout = 2 * time.Second

// health answers whether the broker can do its work.
type health struct {
	store  *store.Store
	shared *shared.Servers
}

type readiness struct {
	Status        string            `json:"status"` // "ok" or "unavailable"
	Postgres      string            `json:"postgresql"`
	SharedServers map[string]string `json:"shared_servers"` // each "ok" or "unreachable"
}

// ready answers 200 if PostgreSQL and every shared server answer, else 503 and which does not. Reasons are for the
// log: the answer is given to anyone.
func (h health) ready(w http.ResponseWriter, r *http.Request) {
	status := func(err error) string {
		if err != nil {
			return "unreachable"
		}
		return "ok"
	}
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	answer := readiness{Status: "ok", Postgres: status(h.store.Ping(ctx)), SharedServers: map[string]string{}}
	code := http.StatusOK
	fail := func() { answer.Status, code = "unavailable", http.StatusServiceUnavailable }
	if answer.Postgres != "ok" {
		fail()
	}
	for name, err := range h.shared.Health(r.Context()) {
		answer.SharedServers[name] = status(err)
		if err != nil {
			fail()
		}
	}
	writeJSON(w, code, answer)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v) // a client that went away needs no answer
}
