package app

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
)

// Concurrent requests to /metrics or /readyz query the servers once. A later request queries them again.
func TestAskedTogether(t *testing.T) {
	for _, path := range []string{"/metrics", "/readyz"} {
		synctest.Test(t, func(t *testing.T) {
			answer := make(chan struct{})
			s := slowSource{answer: answer}
			registry := prometheus.NewRegistry()
			registry.MustRegister(&s)
			served := routes(nil, registry, func() (readiness, error) {
				s.ask()
				return readiness{Status: "ok"}, nil
			}, nil)
			ask := func() {
				w := httptest.NewRecorder()
				served.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
				if w.Code != http.StatusOK || w.Body.Len() == 0 {
					t.Errorf("%s answers %d: %s", path, w.Code, w.Body)
				}
			}
			var all sync.WaitGroup
			for range 20 {
				all.Go(ask)
			}
			synctest.Wait()
			close(answer)
			all.Wait()
			if s.asked != 1 {
				t.Errorf("%s: asked %d times at once", path, s.asked)
			}
			ask()
			if s.asked != 2 {
				t.Errorf("%s: asked %d times in all", path, s.asked)
			}
		})
	}
}

// slowSource collects a metric that takes until answer is closed.
type slowSource struct {
	answer chan struct{}
	mu     sync.Mutex
	asked  int
}

func (s *slowSource) ask() {
	s.mu.Lock()
	s.asked++
	s.mu.Unlock()
	<-s.answer
}

func (s *slowSource) Describe(ch chan<- *prometheus.Desc) { ch <- orphansDesc }

func (s *slowSource) Collect(ch chan<- prometheus.Metric) {
	s.ask()
	gauge(ch, orphansDesc, 1, "a", "b")
}
