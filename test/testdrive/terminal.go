package testdrive

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// Terminal is where a person types client commands.
type Terminal struct{ Env map[string]string }

// Terminal is that of a person whom nobody has told of the broker's instances yet.
func (p Platform) Terminal(t *testing.T) Terminal {
	return Terminal{map[string]string{"BROKER_URL": p.URL, "BROKER_USERNAME": p.Username, "BROKER_PASSWORD": p.Password,
		"MYSQL_BROKER_CLIENT_STATE": filepath.Join(t.TempDir(), "client.json")}}
}

// Run returns what a command that succeeds prints.
func (u Terminal) Run(t *testing.T, args ...string) string {
	t.Helper()
	return Run(t, u.Env, append([]string{"client"}, args...)...).Expect(t, 0).Stdout
}

// Expect fails the test unless the command succeeds and prints a text.
func (u Terminal) Expect(t *testing.T, text string, args ...string) {
	t.Helper()
	if out := u.Run(t, args...); !strings.Contains(out, text) {
		t.Errorf("client %s printed %q without %q", strings.Join(args, " "), out, text)
	}
}

// Read decodes the one JSON document that a command prints with --json.
func (u Terminal) Read(t *testing.T, document any, args ...string) {
	t.Helper()
	out := u.Run(t, append(args, "--json")...)
	if err := json.Unmarshal([]byte(out), document); err != nil {
		t.Fatalf("client %s --json: %v: %q", strings.Join(args, " "), err, out)
	}
}

// Fail returns what a command that fails prints to its standard error.
func (u Terminal) Fail(t *testing.T, args ...string) string {
	t.Helper()
	return Run(t, u.Env, append([]string{"client"}, args...)...).Expect(t, 1).Stderr
}

// Refused fails the test unless the command fails and says why.
func (u Terminal) Refused(t *testing.T, why string, args ...string) {
	t.Helper()
	if said := u.Fail(t, args...); !strings.Contains(said, why) {
		t.Errorf("client %s says %q without %q", strings.Join(args, " "), said, why)
	}
}
