package app

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
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
				assert.True(t, w.Code == http.StatusOK && w.Body.Len() != 0, "%s answers %d: %s", path, w.Code, w.Body)
			}
			var all sync.WaitGroup
			for range 20 {
				all.Go(ask)
			}
			synctest.Wait()
			close(answer)
			all.Wait()
			assert.Equal(t, 1, s.asked, "%s: asked %d times at once", path, s.asked)
			ask()
			assert.Equal(t, 2, s.asked, "%s: asked %d times in all", path, s.asked)
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
