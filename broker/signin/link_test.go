package signin_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/broker/signin"
	"mysql-broker/test/logged"
	"mysql-broker/test/openid"
	"mysql-broker/test/servers"
)

// startOwn runs a dashboard as `mysql-broker dev` does. printed returns the links that it has printed.
func startOwn(t *testing.T) (dashboardURL string, s *signin.SignIn, printed func() []string) {
	var terminal logged.Text
	server := httptest.NewUnstartedServer(nil)
	dashboardURL = "http://" + server.Listener.Addr().String()
	external, err := url.Parse(dashboardURL)
	require.NoError(t, err)
	s = signin.New(signin.Config{ExternalURL: external, Store: servers.Store(t), Announce: func(link string) { fmt.Fprintln(&terminal, link) },
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	server.Config.Handler = serve(s)
	server.Start()
	t.Cleanup(server.Close)
	return dashboardURL, s, func() []string { return strings.Fields(terminal.String()) }
}

func TestLink(t *testing.T) {
	t.Parallel()
	address, s, _ := startOwn(t)
	b := openid.NewBrowser(t)
	link := s.Link()
	p := b.Open(t, link)
	assert.True(t, p.URL.String() == address+"/dashboard/" && strings.Contains(p.Text, `"Operator":true`),
		"the link led to %s: %d %s", p.URL, p.Status, p.Text)
	b.Open(t, link).Expect(t, http.StatusForbidden, "This link is not valid, or no longer.")
	openid.NewBrowser(t).Open(t, link).Expect(t, http.StatusForbidden, "This link is not valid, or no longer.")
	b.Open(t, address+"/dashboard/instances/any").Expect(t, http.StatusOK, `"Access":2`) // the session goes on
	signOut(t, b, address)
	b.Open(t, address+"/dashboard/").Expect(t, http.StatusUnauthorized, "Open the link that the broker printed")
}

// A foreign page whose host name was made to resolve to this machine gets nothing.
func TestLinkUnderAnotherName(t *testing.T) {
	t.Parallel()
	address, s, _ := startOwn(t)
	link := s.Link()
	b := openid.NewBrowser(t)
	send := func(method, url, host string) openid.Page {
		r, err := http.NewRequest(method, url, nil)
		require.NoError(t, err)
		r.Host = host
		answer, err := b.Client.Do(r)
		require.NoError(t, err)
		answer.Body.Close()
		return openid.Page{Status: answer.StatusCode, URL: r.URL, Header: answer.Header}
	}
	for _, host := range []string{"evil.example.com", "127.0.0.1.evil.example.com", "10.0.0.1:8080", "localhost.evil.example.com",
		"0.0.0.0"} {
		for method, urls := range map[string][]string{"GET": {link, address + "/dashboard/", address + signin.Path},
			"POST": {address + signin.SignOutPath}} {
			for _, u := range urls {
				send(method, u, host).Expect(t, http.StatusMisdirectedRequest, "")
			}
		}
	}
	send("GET", link, "localhost:1").Expect(t, http.StatusOK, "") // the link still holds
}

// A request without a session has a new link printed, but not every such request.
func TestLinksAreAnnounced(t *testing.T) {
	t.Parallel()
	address, _, printed := startOwn(t)
	b := openid.NewBrowser(t)
	for range 3 {
		b.Open(t, address+"/dashboard/").Expect(t, http.StatusUnauthorized, "Open the link that the broker printed")
	}
	require.Len(t, printed(), 1)
	b.Open(t, printed()[0]).Expect(t, http.StatusOK, `"Operator":true`)
	b.Open(t, printed()[0]).Expect(t, http.StatusForbidden, "The broker has printed another one")
	links := printed()
	require.True(t, len(links) == 2 && links[0] != links[1], "printed: %q", links)
	openid.NewBrowser(t).Open(t, links[1]).Expect(t, http.StatusOK, `"Operator":true`)
}
