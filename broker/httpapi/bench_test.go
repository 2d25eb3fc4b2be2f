package httpapi

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"testing"

	"code.cloudfoundry.org/brokerapi/v13/domain"
	"github.com/prometheus/client_golang/prometheus"
)

// BenchmarkRequests measures what the handler adds to net/http and the broker, log lines included.
func BenchmarkRequests(b *testing.B) {
	h, err := New(&mute{}, Config{Credentials: []Credential{{"broker", testPassword}},
		Logger: slog.New(slog.NewJSONHandler(io.Discard, nil)), Registerer: prometheus.NewRegistry()})
	if err != nil {
		b.Fatal(err)
	}
	for _, target := range []string{"/v2/catalog", anInstance + "/last_operation?operation=task_1"} {
		b.Run(target, func(b *testing.B) {
			r, err := http.NewRequest(http.MethodGet, target, nil)
			if err != nil {
				b.Fatal(err)
			}
			r.RemoteAddr = "127.0.0.1:40000"
			r.SetBasicAuth("broker", testPassword)
			r.Header.Set("X-Broker-API-Version", "2.17")
			r.Header.Set("X-Broker-API-Request-Identity", testIdentity)
			b.ReportAllocs()
			for b.Loop() {
				w := &sink{header: http.Header{}}
				h.ServeHTTP(w, r)
				if w.status != http.StatusOK {
					b.Fatalf("status %d", w.status)
				}
			}
		})
	}
}

// sink is the client of a benchmark.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }

// mute is a recordingBroker that forgets, so that a benchmark's calls take no memory.
type mute struct{ recordingBroker }

func (b *mute) LastOperation(context.Context, string, domain.PollDetails) (LastOperation, error) {
	return LastOperation{LastOperation: domain.LastOperation{State: domain.InProgress,
		Description: "Starting the server"}}, nil
}
