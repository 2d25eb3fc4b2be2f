package testdrive

import (
	"maps"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// RunRecover runs it as an operator does, and returns what it prints.
func RunRecover(t *testing.T, env map[string]string, status int, args ...string) string {
	t.Helper()
	env = maps.Clone(env)
	delete(env, "BROKER_USERNAME")
	delete(env, "BROKER_PASSWORD")
	out := Run(t, env, append([]string{"recover"}, args...)...).Expect(t, status)
	return out.Stdout + out.Stderr
}

// StopBroker ends a broker as a platform does.
func StopBroker(t *testing.T, p Platform) {
	t.Helper()
	p.Signal(t, syscall.SIGTERM)
	if status := p.Wait(t); status != 0 {
		t.Fatalf("exit status %d", status)
	}
}

// ExpectHeld checks everything that a broker reports about a hold.
func ExpectHeld(t *testing.T, p Platform, reason string) {
	t.Helper()
	r := p.Do(t, http.MethodGet, "/readyz", nil).Expect(t, http.StatusOK)
	held, _ := r.Body["held"].(map[string]any)
	why, _ := held["reason"].(string)
	todo, _ := held["to_do"].(string)
	if r.String("status") != "held" || !strings.Contains(why, reason) || !strings.Contains(todo, "mysql-broker recover") {
		t.Errorf("/readyz says %s", r.Raw)
	}
	ExpectFigures(t, p, map[string]string{"mysql_broker_held": "1"})
}
