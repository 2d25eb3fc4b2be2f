package signin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/stretchr/testify/assert"
)

func TestGroups(t *testing.T) {
	t.Parallel()
	for claim, want := range map[string]bool{
		`{"scope":["openid","dba"]}`:             true, // UAA
		`{"groups":["dba"]}`:                     true,
		`{"groups":"dba"}`:                       true,
		`{"roles":["x","dba"]}`:                  true,
		`{"realm_access":{"roles":["dba"]}}`:     true, // Keycloak
		`{"scope":"openid dba"}`:                 false,
		`{"groups":["dba2","/dba","DBA"]}`:       false,
		`{"groups":{"dba":true},"roles":7}`:      false,
		`{"groups":[["dba"],null,{"a":"dba"}]}`:  false,
		`{"name":"dba","user_name":"dba"}`:       false,
		`{"resource_access":{"x":{"roles":[]}}}`: false,
		`{}`:                                     false,
	} {
		var c claims
		assert.NoError(t, json.Unmarshal([]byte(claim), &c), claim)
		assert.Equal(t, want, c.has("dba"), "%s: %v", claim, !want)
		assert.Equal(t, want, (claims{access: &c}).has("dba"), "%s in an access token: %v", claim, !want)
	}
}

func TestPermissionsAreKeptForAShortTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPermissions("https://api.example.com")
		q := question{"session", "instance"}
		p.keep(q, Manage)
		time.Sleep(permissionTime - time.Nanosecond)
		a, ok := p.known(q)
		assert.True(t, a == Manage && ok, "%v, %v before its time", a, ok)
		_, ok = p.known(question{"another session", "instance"})
		assert.False(t, ok, "somebody else has the same permission")
		time.Sleep(time.Nanosecond)
		_, ok = p.known(q)
		assert.False(t, ok, "the permission holds for longer than its time")
		for i := range 3 * maxPermissions {
			p.keep(question{"session", fmt.Sprint(i)}, Read)
			time.Sleep(time.Millisecond)
		}
		assert.True(t, len(p.kept) <= maxPermissions, "%d permissions are kept", len(p.kept))
		a, ok = p.known(question{"session", fmt.Sprint(3*maxPermissions - 1)})
		assert.True(t, a == Read && ok, "the last permission is not kept")
	})
}

// The browser's code, the client's secret and a person's token go only where nobody else reads them.
func TestResponsesOfOthers(t *testing.T) {
	t.Parallel()
	var server *httptest.Server
	var path, instead string
	var location string
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, path) && location != "":
			http.Redirect(w, r, location, http.StatusTemporaryRedirect)
		case strings.HasSuffix(r.URL.Path, path) && instead != "":
			fmt.Fprint(w, instead)
		case r.URL.Path == "/":
			fmt.Fprintf(w, `{"links": {"uaa": {"href": %q}}}`, server.URL)
		case strings.HasPrefix(r.URL.Path, "/v3/"):
			fmt.Fprint(w, `{"manage": true, "read": true}`)
		default:
			fmt.Fprintf(w, metadata, server.URL+"/oauth/token", server.URL, server.URL, server.URL, server.URL)
		}
	}))
	defer server.Close()
	const discovery, permitted = "/.well-known/openid-configuration", "/permissions"
	named := func(authorization, token, keys, end string) string {
		return fmt.Sprintf(metadata, server.URL+"/oauth/token", authorization, token, keys, end)
	}
	for what, test := range map[string]struct{ path, instead, location, says string }{
		"as it should be":         {},
		"UAA by http":             {"/", `{"links": {"uaa": {"href": "http://uaa.example.com"}}}`, "", "https://"},
		"metadata are redirected": {discovery, "", "/other", "redirects"},
		"browsers to http":        {discovery, named("http://a.example.com", server.URL, server.URL, ""), "", "https://"},
		"browsers to a script":    {discovery, named("javascript:alert(1)", server.URL, server.URL, ""), "", "https://"},
		"sign-out by http":        {discovery, named(server.URL, server.URL, server.URL, "http://a.example.com"), "", "https://"},
		"secret to http":          {discovery, named(server.URL, "http://a.example.com", server.URL, ""), "", "https://"},
		"keys by http":            {discovery, named(server.URL, server.URL, "http://a.example.com", ""), "", "https://"},
		"another issuer": {discovery, fmt.Sprintf(metadata, "https://a.example.com", server.URL, server.URL, server.URL, ""), "",
			"issuer URL provided to client"},
		"root is a list":           {"/", `[{"links": {}}]`, "", "cannot unmarshal"},
		"UAA is no text":           {"/", `{"links": {"uaa": {"href": 7}}}`, "", "cannot unmarshal"},
		"metadata are a page":      {discovery, "<html>", "", "invalid character"},
		"permission is a text":     {permitted, `{"manage": "false", "read": 1}`, "", "cannot unmarshal"},
		"permission is a page":     {permitted, "<html>manage: true</html>", "", "invalid character"},
		"permission is cut off":    {permitted, `{"manage": true`, "", "unexpected EOF"},
		"permission is redirected": {permitted, "", "/v3/other", "redirects"},
	} {
		path, instead, location = test.path, test.instead, test.location
		p := newProvider(Provider{ClientID: "client"}, server.URL, server.URL+"/callback")
		e, err := p.endpoints(t.Context())
		if err == nil {
			err = p.fetchKeys(t.Context(), e)
		}
		if err == nil {
			_, err = e.oauth.Exchange(oidc.ClientContext(t.Context(), p.client), "code")
			if err != nil && strings.Contains(err.Error(), "access_token") { // it came as far as the provider's response
				err = nil
			}
		}
		if err == nil {
			var access Access
			access, err = newPermissions(server.URL).of(t.Context(), session{AccessToken: "token"}, "i1")
			assert.False(t, err == nil && access != Manage, "%s: access %d", what, access)
		}
		if test.says == "" {
			assert.NoError(t, err, what)
		} else {
			assert.ErrorContains(t, err, test.says, what)
		}
	}
}

const metadata = `{"issuer": %q, "authorization_endpoint": %q, "token_endpoint": %q, "jwks_uri": %q,
	"end_session_endpoint": %q, "id_token_signing_alg_values_supported": ["RS256"]}`

func TestLinkEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLinks(nil)
		first, second := l.newToken(), l.newToken()
		time.Sleep(linkTime - time.Millisecond)
		assert.True(t, l.open() && l.use(first) && !l.use(first), "a link does not hold once within its time")
		time.Sleep(2 * time.Millisecond)
		assert.False(t, l.open() || l.use(second) || l.use(first), "a link holds for longer than its time")
	})
}

func TestLinkThatWasChanged(t *testing.T) {
	t.Parallel()
	l := newLinks(nil)
	token := l.newToken()
	for i := range len(token) {
		letter := "A"
		if token[i] == 'A' {
			letter = "B"
		}
		assert.False(t, l.use(token[:i]+letter+token[i+1:]), "letter %d of %s", i, token)
	}
	for _, changed := range []string{"", "x", token[1:], token + "A", token + "=", newLinks(nil).newToken()} {
		assert.False(t, l.use(changed), changed)
	}
	assert.True(t, l.use(token))
}

// Browsers take any return address that a cookie holds for a page of this dashboard.
func FuzzReturnAddress(f *testing.F) {
	for _, seed := range []string{"/dashboard/", "/dashboard/instances/a?b=c", "//evil", "/\\evil", "https://evil",
		"/dashboard/../..//evil", "/dashboard/\t//evil", "/dashboard/%0d%0a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, address string) {
		if !returnable(address) {
			return
		}
		w := httptest.NewRecorder()
		redirect(w, address)
		request := httptest.NewRequest("GET", "http://broker.example.com/dashboard/sign-in/callback", nil)
		answer := w.Result()
		answer.Request = request
		to, err := answer.Location()
		if err != nil {
			return // no browser follows it either
		}
		assert.True(t, to.Host == "broker.example.com" && to.Scheme == "http" &&
			!strings.ContainsAny(answer.Header.Get("Location"), "\r\n"), "%q leads to %s", address, to)
	})
}

func TestNavigation(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		method, mode, accept string
		want                 bool
	}{
		{"GET", "navigate", "", true},
		{"HEAD", "", "text/html", true},
		{"GET", "", "text/html,*/*", true},
		{"GET", "", "*/*", false},
		{"GET", "cors", "text/html", false},
		{"GET", "", "text/event-stream", false},
		{"POST", "navigate", "text/html", false},
	} {
		r := httptest.NewRequest(tt.method, "/", nil)
		r.Header = http.Header{"Accept": {tt.accept}}
		if tt.mode != "" {
			r.Header.Set("Sec-Fetch-Mode", tt.mode)
		}
		assert.Equal(t, tt.want, navigation(r), "%+v", tt)
	}
}
