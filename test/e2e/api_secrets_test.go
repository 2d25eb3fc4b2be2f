package e2e

import (
	"strings"
	"sync"
	"testing"
)

// secrets are what a broker must keep out of its log.
type secrets struct {
	mu  sync.Mutex
	all []string
}

func (s *secrets) add(secrets ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, secrets...)
}

func (s *secrets) checkLog(t *testing.T, log string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range strings.Lines(log) {
		for _, secret := range s.all {
			if strings.Contains(line, secret) {
				t.Errorf("this line of the log holds a secret: %s", line)
			}
		}
	}
}
