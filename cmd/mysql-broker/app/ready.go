package app

import (
	"context"
	"errors"
	"net/http"
	"time"

	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
)

// readiness says whether the broker can work. Anyone can read it, so reasons go only to the log.
type readiness struct {
	Status        string            `json:"status"`                 // "ok", "degraded", "held" or "unavailable"
	Postgres      string            `json:"postgresql"`             // "ok", "read-only", "full" or "unreachable"
	SharedServers map[string]string `json:"shared_servers"`         // each "ok" or "unreachable"
	ObjectStore   string            `json:"object_store,omitempty"` // "ok" or "unusable"
	Held          *heldState        `json:"held,omitempty"`         // why only reads, polls and binds work
}

// heldState also says how the hold ends.
type heldState struct {
	*store.Hold
	ToDo string `json:"to_do"`
}

var errUnavailable = errors.New("something that the broker needs does not answer")

// readinessOf returns a function that checks PostgreSQL and every shared server. Its error is errUnavailable if one
// does not respond. It does not use a request's context, because other requests may wait for the same result. A hold is
// reported, but is no error: reads, polls and binds work, and platforms would otherwise stop routing to all replicas at
// once. Nor is an object store that cannot be used. limit bounds the wait for PostgreSQL; each shared server has its
// own limit.
func readinessOf(s *store.Store, servers *shared.Servers, objects *objectStore,
	limit time.Duration) func() (readiness, error) {
	return func() (readiness, error) {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		var problem error
		status := func(err error) string {
			if err != nil {
				problem = errUnavailable
			}
			return readinessWord(err)
		}
		seen := readiness{Status: "ok", Postgres: status(s.Writable(ctx)), SharedServers: map[string]string{}}
		if objects != nil {
			seen.ObjectStore = "ok"
			if objects.failed.Load() {
				seen.Status, seen.ObjectStore = "degraded", "unusable"
			}
		}
		held, err := s.Recovery.Hold(ctx)
		if err != nil {
			seen.Postgres = status(err)
		}
		if held != nil {
			seen.Status = "held"
			seen.Held = &heldState{held, "Run mysql-broker recover, read what it shows, then run it with --apply."}
		}
		for name, err := range servers.Health(context.Background()) {
			seen.SharedServers[name] = status(err)
		}
		if problem != nil {
			seen.Status = "unavailable"
		}
		return seen, problem
	}
}

// readinessWord says in a word how a check ended.
func readinessWord(err error) string {
	switch {
	case errors.Is(err, store.ErrReadOnly):
		return "read-only"
	case errors.Is(err, store.ErrFull):
		return "full"
	case err != nil:
		return "unreachable"
	}
	return "ok"
}

// writeReadiness responds with 200 if everything works, else with 503, and says what does not respond.
func writeReadiness(w http.ResponseWriter, ready func() (readiness, error)) {
	seen, err := ready()
	code := http.StatusOK
	if err != nil {
		code = http.StatusServiceUnavailable
	}
	writeJSON(w, code, seen)
}
