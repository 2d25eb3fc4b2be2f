package shared

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

// open prepares servers of these names, of which nobody is asked.
func open(t *testing.T, names ...string) *Servers {
	var all []Config
	for _, name := range names {
		all = append(all, Config{Admin: mysqladmin.Config{Name: name, Addr: "127.0.0.1:1", User: "u", Password: "p"}, MaxDatabases: 10})
	}
	s, err := Open(all, []byte("the key of the session locks"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestCandidates(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for what, test := range map[string]struct {
		loads   map[string]store.ServerState
		doubted string
		want    string
		own     string // for a plan that is exclusive
	}{
		"new ones":             {nil, "", "a b c", "own"},
		"the emptiest first":   {map[string]store.ServerState{"a": {Instances: 5}, "b": {Instances: 9}, "c": {Instances: 1}}, "", "c a b", "own"},
		"a full one":           {map[string]store.ServerState{"a": {Instances: 10}, "b": {Instances: 11}, "own": {Instances: 1}}, "", "c", ""},
		"a drained one":        {map[string]store.ServerState{"b": {DrainedSince: &now}, "own": {DrainedSince: &now}}, "", "a c", ""},
		"one that is silent":   {map[string]store.ServerState{"b": {Instances: 9}}, "a", "c b a", "own"},
		"none that is drained": {map[string]store.ServerState{"a": {DrainedSince: &now}, "b": {DrainedSince: &now}, "c": {Instances: 10}}, "", "", "own"},
	} {
		s := open(t, "a", "b", "c")
		own, err := Open([]Config{{Admin: mysqladmin.Config{Name: "own", Addr: "127.0.0.1:1", User: "u", Password: "p"},
			Exclusive: true}}, []byte("the key of the session locks"))
		require.NoError(t, err)
		t.Cleanup(func() { _ = own.Close() })
		s.all = append(s.all, own.all...)
		if test.doubted != "" {
			server, err := s.Server(test.doubted)
			require.NoError(t, err)
			server.doubted.Store(true)
		}
		for exclusive, want := range map[bool]string{false: test.want, true: test.own} {
			var got []string
			for _, server := range s.Candidates(test.loads, exclusive) {
				got = append(got, server.Name())
			}
			assert.Equal(t, want, strings.Join(got, " "), "%s, exclusive %t: %q", what, exclusive, got)
		}
	}
}

// A server that was usable at the last check and does not respond now gets no instance, and is tried last.
func TestServerThatStoppedResponding(t *testing.T) {
	t.Parallel()
	s := open(t, "a", "b")
	first := s.All()[0]
	first.usable.Store(true)
	err := first.Check(t.Context())
	assert.True(t, mysqladmin.CannotReach(err), "nobody listens there: %v", err)
	tried := s.Candidates(nil, false)
	assert.True(t, tried[0] != first, "it is tried first")
}

// A server is verified until that succeeds once, and again after PostgreSQL has another primary.
func TestVerified(t *testing.T) {
	t.Parallel()
	s := open(t, "a")
	server := s.All()[0]
	assert.NoError(t, server.Verified(t.Context(), nil), "without a function")
	older := errors.New("PostgreSQL is older")
	answers := []error{older, nil, older}
	s.VerifyWith(func(context.Context, *Server, mysqladmin.MarkReader) error {
		err := answers[0]
		answers = answers[1:]
		return err
	})
	var got []error
	for n := range 4 {
		if n == 3 {
			s.VerifyAgain()
		}
		got = append(got, server.Verified(t.Context(), nil))
	}
	assert.True(t, slices.Equal(got, []error{older, nil, nil, older}), "verified: %v", got)
}

func TestServersAndDefaults(t *testing.T) {
	t.Parallel()
	s := open(t, "a", "b")
	_, err := s.Server("removed")
	assert.True(t, err != nil && strings.Contains(err.Error(), `"removed" is not configured`),
		"a server that was removed: %v", err)
	assert.Equal(t, []string{"a", "b"}, s.Names())
	assert.Equal(t, DefaultAnswerTime, s.All()[0].AnswerTime)
	_, err = Open([]Config{{Admin: mysqladmin.Config{Name: "x"}}}, nil)
	assert.True(t, err != nil && strings.Contains(err.Error(), `"x"`), "a server without an address: %v", err)
}

func TestSoldConnections(t *testing.T) {
	t.Parallel()
	got := SoldConnections(plan.Set{{ID: "small", MaxConnections: 30}, {ID: "large", MaxConnections: 60}}, []store.Count{
		{PlanID: "small", Server: "a", Count: 2}, {PlanID: "large", Server: "a", Count: 1}, {PlanID: "large", Server: "b", Count: 1},
		{PlanID: "removed", Server: "b", Count: 7}, {PlanID: "small", Server: store.DedicatedServers, Count: 9}})
	assert.Equal(t, map[string]int64{"a": 120, "b": 60}, got, "sold")
}
