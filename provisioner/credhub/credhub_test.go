package credhub_test

import (
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/credhub"
	imitation "mysql-broker/test/credhub"
)

const name = imitation.Path + "/u_1/credentials"

var secret = map[string]any{"password": "secret"}

// client is that of a broker with that CredHub; change adjusts its configuration.
func client(t *testing.T, hub *imitation.Server, change func(*credhub.Config)) *credhub.Client {
	cfg := credhub.Config{URL: hub.URL, CA: []byte(hub.CA), ClientID: imitation.Client, ClientSecret: imitation.Secret,
		Path: imitation.Path}
	if change != nil {
		change(&cfg)
	}
	c, err := credhub.New(cfg)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestStoreAndDelete(t *testing.T) {
	t.Parallel()
	hub := imitation.Start(t)
	c := client(t, hub, nil)
	reader := credhub.Application(uuid.NewString())
	require.Equal(t, name, c.Name("u_1"))
	require.Equal(t, c.Path(), credhub.PathOf(name))
	for range 2 {
		require.NoError(t, c.Store(t.Context(), name, secret, reader))
	}
	_, single := hub.Contents()
	assert.Len(t, single, 1, "the permissions")
	for who, may := range map[string]bool{reader: true, credhub.Application(uuid.NewString()): false,
		credhub.UAAClient(imitation.CloudController): false} {
		got, read := hub.Read(who, name)
		assert.True(t, read == may && maps.Equal(got, secret), "%s reads %v, %t", who, got, read)
	}
	names, err := c.Names(t.Context(), imitation.Path)
	assert.True(t, err == nil && len(names) == 1 && names[0] == name, "there are %q, %v", names, err)
	for _, want := range []bool{true, false} { // CredHub does not tell what is absent from what may not be deleted
		done, err := c.Delete(t.Context(), name, reader)
		assert.True(t, done == want && err == nil, "deleted: %t, %v", done, err)
	}
	names, single = hub.Contents()
	assert.True(t, len(names) == 0 && len(single) == 0, "left are %v, %v", names, single)
}

// Others may change what CredHub has: somebody restores it from a backup, or takes a permission away.
func TestHolds(t *testing.T) {
	t.Parallel()
	hub := imitation.Start(t)
	c := client(t, hub, nil)
	reader := credhub.Application(uuid.NewString())
	sum, err := credhub.Sum(secret)
	require.NoError(t, err)
	require.NoError(t, c.Store(t.Context(), name, secret, reader))
	for _, test := range []struct {
		what  string
		there map[string]any
		who   string
		holds bool
	}{
		{"what was stored", secret, reader, true},
		{"a former password", map[string]any{"password": "former"}, reader, false},
		{"nothing", nil, reader, false},
		{"no permission", secret, credhub.Application("another"), false},
	} {
		hub.Lose(name, test.there)
		holds, err := c.Holds(t.Context(), name, sum, test.who)
		assert.True(t, holds == test.holds && err == nil, "%s: %t, %v", test.what, holds, err)
	}
}

func TestCheckDeleting(t *testing.T) {
	t.Parallel()
	hub := imitation.Start(t)
	c := client(t, hub, nil)
	assert.NoError(t, c.CheckDeleting(t.Context(), imitation.Path), "with all permissions")
	hub.Answer("DELETE", "", "", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"error": "there is none, or you may not"}`))
	})
	assert.ErrorIs(t, c.CheckDeleting(t.Context(), imitation.Path), credhub.ErrNotDeleted,
		"without the permission to delete")
	hub.Meet(nil)
	hub.Allow(false)
	err := c.CheckDeleting(t.Context(), imitation.Path)
	assert.False(t, err == nil || errors.Is(err, credhub.ErrNotDeleted), "without the permission to write: %v", err)
}

// One token serves many requests. An expired one and one that UAA does not know any more are replaced.
func TestTokens(t *testing.T) {
	t.Parallel()
	hub := imitation.Start(t)
	c := client(t, hub, nil)
	store := func() error { return c.Store(t.Context(), name, secret, credhub.UAAClient("reader")) }
	for range 3 {
		require.NoError(t, store())
		require.Equal(t, 1, hub.Granted(), "tokens")
	}
	hub.ExpireTokens(false)
	assert.NoError(t, store())
	assert.Equal(t, 2, hub.Granted(), "tokens after one has expired")
	hub.ExpireTokens(true)
	if err := store(); err != nil && store() != nil { // UAA tells of a revoked token only by refusing it
		t.Errorf("after a token was revoked: %v", err)
	}
}

func TestIdentities(t *testing.T) {
	t.Parallel()
	hub := imitation.Start(t)
	own := uuid.NewString()
	certificate, key := hub.InstanceIdentity(own)
	hub.Grant(credhub.Application(own), imitation.Path)
	for what, test := range map[string]struct {
		change func(*credhub.Config)
		says   string // "" for success
	}{
		"a certificate": {func(c *credhub.Config) {
			c.ClientID, c.ClientSecret, c.Certificate, c.Key = "", "", certificate, key
		}, ""},
		"a certificate that is gone": {func(c *credhub.Config) {
			c.ClientID, c.ClientSecret, c.Certificate, c.Key = "", "", certificate+".old", key
		}, "no such file"},
		"another secret": {func(c *credhub.Config) { c.ClientSecret = "another" }, "credentials"},
		"an unknown CA":  {func(c *credhub.Config) { c.CA = nil }, "certificate"},
	} {
		err := client(t, hub, test.change).Store(t.Context(), name, secret, credhub.UAAClient("reader"))
		if test.says == "" {
			assert.NoError(t, err, what)
		} else {
			assert.ErrorContains(t, err, test.says, what)
		}
		refused := (*credhub.Error)(nil)
		assert.False(t, err != nil && (!errors.As(err, &refused) || !strings.HasPrefix(err.Error(), "CredHub: store ")),
			"%s: the error does not say what failed: %v", what, err)
	}
	assert.Equal(t, 0, hub.Granted(), "a broker with a certificate asked for a token")
	_, err := credhub.New(credhub.Config{CA: []byte("not PEM")})
	assert.Error(t, err, "a CA that is no PEM is taken")
}

// A CredHub that is broken, or that somebody else plays, makes no reference to nothing, and deletes nothing of others.
func TestResponses(t *testing.T) {
	t.Parallel()
	reader := credhub.Application(uuid.NewString())
	var reached atomic.Bool
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	defer plain.Close()
	permission := `{"path": "/c/other", "actor": "` + reader + `", "operations": ["read"], "uuid": "` + uuid.NewString() + `"}`
	for what, test := range map[string]struct {
		method, path string
		status       int
		body         string // or the target of a redirect
		says         string
	}{
		"stores nothing":            {"PUT", "/api/v1/data", 200, `{}`, "about something else"},
		"stores another name":       {"PUT", "/api/v1/data", 200, `{"name": "/c/other"}`, "about something else"},
		"sends a password to http":  {"PUT", "/api/v1/data", 307, plain.URL, "redirects"},
		"another path's permission": {"GET", "/api/v2/permissions", 200, permission, "about something else"},
		"no permission at all":      {"POST", "/api/v2/permissions", 201, `{}`, "about something else"},
		"UAA by http":               {"GET", "/info", 200, `{"auth-server": {"url": "` + plain.URL + `"}}`, "https://"},
	} {
		hub := imitation.Start(t)
		hub.Answer(test.method, test.path, "", func(w http.ResponseWriter, r *http.Request) {
			if test.status/100 == 3 {
				http.Redirect(w, r, test.body, test.status)
				return
			}
			w.WriteHeader(test.status)
			_, _ = w.Write([]byte(test.body))
		})
		err := client(t, hub, nil).Store(t.Context(), name, secret, reader)
		assert.True(t, err != nil && strings.Contains(err.Error(), test.says) && !reached.Load(),
			"%s: reached another server: %t, %v", what, reached.Load(), err)
		if test.path == "/api/v2/permissions" && test.method == "GET" {
			done, err := client(t, hub, nil).Delete(t.Context(), name, reader)
			assert.False(t, done || err == nil, "%s: deleted: %t, %v", what, done, err)
		}
	}
}

func TestOldCredHub(t *testing.T) {
	t.Parallel()
	hub := imitation.Start(t)
	hub.Answer("", "/version", "", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"version": "1.9.3"}`))
	})
	_, err := client(t, hub, nil).Names(t.Context(), imitation.Path)
	assert.True(t, err != nil && strings.Contains(err.Error(), "needs 2.0"), "the error is %v", err)
}
