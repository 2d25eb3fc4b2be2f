package testdrive

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/visible"
)

// Operator runs commands in the environment of serve, without the platform's password. No output may contain a secret.
type Operator struct {
	Env  map[string]string
	Seen *Secrets
}

func (p Platform) Operator(env map[string]string) Operator {
	return Operator{withoutPlatform(env), p.Seen}
}

// withoutPlatform is an environment without the platform's password.
func withoutPlatform(env map[string]string) map[string]string {
	env = maps.Clone(env)
	delete(env, "BROKER_USERNAME")
	delete(env, "BROKER_PASSWORD")
	return env
}

// Run runs a command, expects this exit status, and returns the output.
func (o Operator) Run(t *testing.T, status int, args ...string) Output {
	out := Run(t, o.Env, args...).Expect(t, status)
	text := out.Stdout + out.Stderr
	o.Seen.Check(t, "mysql-broker "+strings.Join(args, " "), text)
	assert.Equal(t, visible.Text(text), text, "%v printed what terminals obey", args)
	return out
}

// Read decodes what a command prints with --json.
func (o Operator) Read(t *testing.T, document any, args ...string) {
	out := o.Run(t, 0, append(args, "--json")...).Stdout
	err := json.Unmarshal([]byte(out), document)
	require.NoError(t, err, "%v: %q", err, out)
}

// IDs are the fields of that name in what a list prints with --json.
func (o Operator) IDs(t *testing.T, field string, args ...string) []string {
	var rows []map[string]any
	o.Read(t, &rows, args...)
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i], _ = row[field].(string)
	}
	return ids
}

// Refuse fails the test unless a command fails and says why.
func (o Operator) Refuse(t *testing.T, why string, args ...string) {
	out := o.Run(t, 1, args...)
	assert.True(t, strings.Contains(out.Stderr, why) && out.Stdout == "",
		"%q printed %q and %q without %q", args, out.Stdout, out.Stderr, why)
}

// AuditLine is a line of `mysql-broker audit --json`.
type AuditLine struct {
	Platform, Action, Plan, Object, Result string

	UserID     string `json:"user_id"`
	UserName   string `json:"user_name"`
	Email      string
	Host       string
	RequestID  string `json:"request_id"`
	InstanceID string `json:"instance_id"`
	BindingID  string `json:"binding_id"`
	Task       string
}

func (o Operator) Audit(t *testing.T, args ...string) (all []AuditLine) {
	out := o.Run(t, 0, append([]string{"audit", "--json"}, args...)...).Stdout
	for line := range strings.Lines(out) {
		var l AuditLine
		err := json.Unmarshal([]byte(line), &l)
		require.NoError(t, err, "%v: %q", err, line)
		all = append(all, l)
	}
	return all
}

// RunDoctor runs it as an operator does who is not given the platform's password.
func RunDoctor(t *testing.T, env map[string]string, args ...string) Output {
	return Run(t, withoutPlatform(env), append([]string{"doctor"}, args...)...)
}

// ExpectLine fails the test unless one line has all of these parts.
func ExpectLine(t *testing.T, text string, parts ...string) {
	assert.True(t, slices.ContainsFunc(slices.Collect(strings.Lines(text)), func(line string) bool {
		return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) })
	}), "no line with %q in:\n%s", parts, text)
}

// Retained is what an operator's list shows.
type Retained struct {
	ID, Name   string
	InstanceID string `json:"instance_id"`
	AdoptedBy  string `json:"adopted_by"`
}

func (o Operator) Retained(t *testing.T) (all []Retained) {
	o.Read(t, &all, "retained")
	return all
}

func RotateAdmin(t *testing.T, env map[string]string, ids ...string) Output {
	return Run(t, env, append([]string{"rotate-admin-passwords"}, ids...)...)
}

// RunRecover runs it as an operator does, and returns what it prints.
func RunRecover(t *testing.T, env map[string]string, status int, args ...string) string {
	out := Run(t, withoutPlatform(env), append([]string{"recover"}, args...)...).Expect(t, status)
	return out.Stdout + out.Stderr
}

// StopBroker ends a broker as a platform does.
func StopBroker(t *testing.T, p Platform) {
	p.Signal(t, syscall.SIGTERM)
	require.Equal(t, 0, p.Wait(t), "exit status")
}

// ExpectHeld checks everything that a broker reports about a hold.
func ExpectHeld(t *testing.T, p Platform, reason string) {
	r := p.Do(t, http.MethodGet, "/readyz", nil).Expect(t, http.StatusOK)
	assert.Equal(t, "held", r.String("status"), r.Raw)
	assert.Contains(t, Field(r.Body, "held", "reason"), reason)
	assert.Contains(t, Field(r.Body, "held", "to_do"), "mysql-broker recover")
	ExpectFigures(t, p, map[string]string{"mysql_broker_held": "1"})
}
