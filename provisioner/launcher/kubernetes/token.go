package kubernetes

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// tokenAge is how long a token from a file is used before the file is read again. Kubernetes replaces tokens hourly.
// https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/
const tokenAge = time.Minute

// tokenSource is a constant token, or a file with the current one.
type tokenSource struct {
	file string // "" if the token does not change

	mu    sync.Mutex
	token string
	since time.Time // when it was read
}

func (s *tokenSource) read() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == "" || time.Since(s.since) < tokenAge {
		return s.token, nil
	}
	text, err := os.ReadFile(s.file)
	if err != nil {
		return "", fmt.Errorf("the token for Kubernetes: %w", err)
	}
	s.token, s.since = strings.TrimSpace(string(text)), time.Now()
	return s.token, nil
}

// renew makes the next request read the file again. It returns false if there is no file.
func (s *tokenSource) renew() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = time.Time{}
	return s.file != ""
}
