package kubernetes

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// tokenAge is after what time a file with a token is read again: Kubernetes replaces the token of a pod each hour.
// https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/
const tokenAge = time.Minute

// tokenSource is a token that does not change, or the file that has it.
type tokenSource struct {
	file string // "" where the token does not change

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

// renew has the file read again before the next request. It is false where there is no file.
func (s *tokenSource) renew() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = time.Time{}
	return s.file != ""
}
