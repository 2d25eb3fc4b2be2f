package signin_test

import (
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/broker/signin"
	"mysql-broker/test/openid"
	"mysql-broker/test/testdrive"
)

func TestSignIn(t *testing.T) {
	t.Parallel()
	d := start(t, 1)
	b := openid.NewBrowser(t)
	page := b.LogIn(t, d.at(managed)+"?since=1h&x=%2F", openid.Developer)
	expect(t, page, openid.Developer, signin.Manage)
	assert.Equal(t, d.at(managed)+"?since=1h&x=%2F", page.URL.String(), "the sign-in ended at %s", page.URL)
	assert.Equal(t, "no-store", page.Header.Get("Cache-Control"), "the page may be kept: %q", page.Header)
	cookies := b.Cookies(t, d.URL, "")
	assert.True(t, len(cookies) == 1 && len(cookies[0].Value) <= 100, "the browser keeps %v", cookies)
	b.Open(t, d.URL+signin.Path).Expect(t, http.StatusOK, "You are signed in as dora.")
	// UAA's tokens are long: these have 300 groups.
	assert.GreaterOrEqual(t, read[int](t, d.records, "SELECT length(sealed) FROM session"), 8192)
}

func TestWhoMaySeeWhat(t *testing.T) {
	t.Parallel()
	d := start(t, 1)
	for _, tt := range []struct {
		person, instance string
		want             signin.Access
		asks             int // Cloud Controller
	}{
		{openid.Operator, managed, signin.Manage, 0},
		{openid.Operator, "no such instance", signin.Manage, 0},
		{openid.Developer, managed, signin.Manage, 1},
		{openid.Developer, visible, signin.Read, 1},
		{openid.Developer, "5a0c1f3e-0000-4000-8000-000000000009", signin.None, 1},
		{openid.Developer, "..", signin.None, 0},
		{openid.Developer, "../service_instances/" + managed, signin.None, 0},
		{openid.Developer, managed + "?x", signin.None, 0},
		{openid.Stranger, managed, signin.None, 1},
		{openid.Stranger, visible, signin.None, 1},
	} {
		t.Run(tt.person+" "+tt.instance, func(t *testing.T) {
			before := d.cloud.Asked()
			address := d.at(tt.instance)
			if tt.instance == ".." {
				address = d.URL + "/dashboard/instances/%2E%2E" // else the browser would go up
			}
			expect(t, openid.NewBrowser(t).LogIn(t, address, tt.person), tt.person, tt.want)
			assert.Equal(t, tt.asks, d.cloud.Asked()-before, "questions to Cloud Controller")
		})
	}
}

// Without a Cloud Controller, as with Keycloak or Dex, only operators can sign in.
func TestProviderOfNoCloudFoundry(t *testing.T) {
	t.Parallel()
	provider := openid.Start(t, openid.Options{})
	d := startWith(t, 1, provider, func(cfg *signin.Config) {
		cfg.CloudController, cfg.Provider.Issuer = "", provider.Issuer
		cfg.Provider.Scopes = []string{"openid", "profile"}
	})
	expect(t, openid.NewBrowser(t).LogIn(t, d.at("any"), openid.Operator), openid.Operator, signin.Manage)
	b := openid.NewBrowser(t)
	refusal := b.LogIn(t, d.at(managed), openid.Developer).Expect(t, http.StatusForbidden, "You may not see this dashboard, dora.")
	assert.Empty(t, b.Cookies(t, d.URL, ""), "who was refused")
	b.Open(t, link(t, refusal)).Expect(t, http.StatusOK, "You are signed out.")
}

func TestTwoReplicas(t *testing.T) {
	t.Parallel()
	d := start(t, 2)
	b := openid.NewBrowser(t)
	expect(t, b.LogIn(t, d.at(managed), openid.Developer), openid.Developer, signin.Manage)
	kept := b.Cookies(t, d.URL, "session")[0]
	signOut(t, b, d.URL)
	for range 4 {
		thief := openid.NewBrowser(t)
		thief.SetCookie(t, d.URL, kept)
		expectNobody(t, thief, d)
	}
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	d := start(t, 2)
	var all sync.WaitGroup
	for i := range 20 {
		b := openid.NewBrowser(t)
		person := []string{openid.Operator, openid.Developer, openid.Stranger}[i%3]
		all.Go(func() {
			p, err := b.TryLogIn(d.at(managed), person)
			if !assert.NoError(t, err) {
				return
			}
			for range 5 {
				var got shown
				err = json.Unmarshal([]byte(p.Text), &got)
				assert.True(t, err == nil && got.Viewer.Name == person, "%s sees %d: %s", person, p.Status, p.Text)
				p, err = b.Do("GET", d.at(managed), nil, nil)
				assert.NoError(t, err)
			}
		})
	}
	all.Wait()
}

// Requests of scripts are not redirected to a page for people. Which they are is TestNavigation's.
func TestWhatIsNoPage(t *testing.T) {
	t.Parallel()
	d := start(t, 1)
	b := openid.NewBrowser(t)
	p, err := b.Do("GET", d.URL+"/dashboard/stream", nil, map[string]string{"Accept": "text/event-stream"})
	require.NoError(t, err)
	p.Expect(t, http.StatusUnauthorized, "Nobody is signed in")
	assert.Empty(t, b.Cookies(t, d.URL, ""), "scripts were given")
}

func TestSessionEnds(t *testing.T) {
	t.Parallel()
	d := start(t, 1)
	b := openid.NewBrowser(t)
	b.LogIn(t, d.at(managed), openid.Developer)
	left := read[time.Duration](t, d.records, "SELECT max(ends_at) - now() FROM session")
	assert.True(t, left <= time.Hour-10*time.Second && left >= 50*time.Minute, // 10 s before the token expires
		"a developer's session lasts %v, the access token an hour", left)
	openid.NewBrowser(t).LogIn(t, d.at(managed), openid.Operator)
	left = read[time.Duration](t, d.records, "SELECT max(ends_at) - now() FROM session")
	assert.True(t, left <= 8*time.Hour && left >= 8*time.Hour-time.Minute, "an operator's session lasts %v", left)
	d.records.Exec(t, "UPDATE session SET ends_at = now()")
	expect(t, b.LogIn(t, d.at(managed), openid.Developer), openid.Developer, signin.Manage)
	assert.Equal(t, 1, read[int](t, d.records, "SELECT count(*) FROM session"), "the one that has not ended")
}

// An open stream ends with its session.
func TestStreamEndsWithTheSession(t *testing.T) {
	t.Parallel()
	d := start(t, 1)
	b := openid.NewBrowser(t)
	expect(t, b.LogIn(t, d.at(managed), openid.Developer), openid.Developer, signin.Manage)
	// Long enough for the stream to begin meanwhile on a busy machine.
	d.records.Exec(t, "UPDATE session SET ends_at = now() + interval '10 s'")
	p := b.Open(t, d.URL+"/dashboard/stream")
	require.Equal(t, "begun\n", p.Text, "%d", p.Status)
	left := read[time.Duration](t, d.records, "SELECT max(ends_at) - now() FROM session")
	assert.True(t, left <= time.Second, "the stream ended %v before the session", left)
	expectNobody(t, b, d)
}

func TestSignOut(t *testing.T) {
	t.Parallel()
	d := start(t, 1)
	b := openid.NewBrowser(t)
	b.LogIn(t, d.at(managed), openid.Developer)
	for _, headers := range []map[string]string{{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
		{"Origin": "https://evil.example.com"}} {
		p, err := b.Do("POST", d.URL+signin.SignOutPath, url.Values{}, headers)
		require.NoError(t, err)
		p.Expect(t, http.StatusForbidden, "")
	}
	b.Open(t, d.URL+signin.SignOutPath).Expect(t, http.StatusOK, "You are still signed in.")
	expect(t, b.Open(t, d.at(managed)), openid.Developer, signin.Manage)

	p := signOut(t, b, d.URL)
	refresh, ok := strings.CutPrefix(p.Header.Get("Refresh"), "0; url=")
	require.True(t, ok && strings.HasPrefix(refresh, d.provider.Issuer),
		"the browser is not sent to the provider's sign-out: %q", p.Header)
	back := b.Open(t, refresh).Expect(t, http.StatusOK, "You are signed out.")
	assert.Equal(t, signin.SignOutPath, back.URL.Path, "the provider sent the browser to %s", back.URL)
	assert.Empty(t, b.Cookies(t, d.URL, ""), "the browser keeps")
	assert.Equal(t, `"cache"`, b.Open(t, refresh).Header.Get("Clear-Site-Data"), "the browser is told to forget")
	assert.Zero(t, read[int](t, d.records, "SELECT count(*) FROM session"), "sessions that are kept")
	expectNobody(t, b, d)
	signOut(t, b, d.URL) // once more is fine
}

// Browsers accept cookies of these names only over HTTPS, and send them to this host only.
func TestCookiesOverHTTPS(t *testing.T) {
	t.Parallel()
	d := startWith(t, 1, openid.Start(t, openid.Options{}), func(cfg *signin.Config) {
		secure := *cfg.ExternalURL
		secure.Scheme = "https"
		cfg.ExternalURL = &secure
	})
	b := openid.NewBrowser(t)
	b.Transport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	var set []*http.Cookie
	b.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		set = append(set, r.Response.Cookies()...)
		return nil
	}
	expect(t, b.LogIn(t, d.at(managed), openid.Developer), openid.Developer, signin.Manage)
	ours := slices.DeleteFunc(set, func(c *http.Cookie) bool { return !strings.Contains(c.Name, "mysql-broker") })
	for _, c := range ours {
		assert.True(t, strings.HasPrefix(c.Name, "__Host-") && c.Secure && c.HttpOnly &&
			c.SameSite == http.SameSiteLaxMode && c.Path == "/" && c.Domain == "", "cookie %s", c)
	}
	assert.Len(t, ours, 3) // the attempt, its end, the session
}

func TestPostgreSQLIsAway(t *testing.T) {
	t.Parallel()
	d := start(t, 1)
	b := openid.NewBrowser(t)
	b.LogIn(t, d.at(managed), openid.Developer)
	d.records.Exec(t, "ALTER TABLE session RENAME TO away")
	p := b.Open(t, d.at(managed)).Expect(t, http.StatusServiceUnavailable, "The dashboard is not available now.")
	assert.NotEmpty(t, p.Header.Get("Retry-After"), "the answer does not say when to try again")
	d.records.Exec(t, "ALTER TABLE away RENAME TO session")
	expect(t, b.Open(t, d.at(managed)), openid.Developer, signin.Manage)

	d.records.Exec(t, "UPDATE session SET sealed = sealed || '\\x00'")
	b.Open(t, d.at(managed)).Expect(t, http.StatusServiceUnavailable, "The dashboard is not available now.")
}

func TestCloudControllerIsAway(t *testing.T) {
	t.Parallel()
	d := start(t, 1)
	b := openid.NewBrowser(t)
	for _, status := range []int{http.StatusInternalServerError, http.StatusBadGateway, http.StatusFound,
		http.StatusTooManyRequests, http.StatusNoContent, http.StatusNotFound} {
		d.cloud.Fail(status)
		p := b.LogIn(t, d.at(managed), openid.Developer).Expect(t, http.StatusServiceUnavailable, "Try again in some seconds")
		assert.NotEmpty(t, p.Header.Get("Retry-After"), "the answer does not say when to try again")
	}
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		d.cloud.Fail(status)
		expect(t, openid.NewBrowser(t).LogIn(t, d.at(managed), openid.Developer), openid.Developer, signin.None)
	}
	d.cloud.Fail(0)
	expect(t, b.Open(t, d.at(managed)), openid.Developer, signin.Manage)
}

func TestPermissionsAreAskedForOnce(t *testing.T) {
	t.Parallel()
	d := start(t, 1)
	b := openid.NewBrowser(t)
	b.LogIn(t, d.URL+"/dashboard/", openid.Developer)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			p, err := b.Do("GET", d.at(managed), nil, nil)
			assert.True(t, err == nil && p.Status == http.StatusOK, "%d, %v", p.Status, err)
		})
	}
	all.Wait()
	assert.Equal(t, 1, d.cloud.Asked(), "questions to Cloud Controller")
}

func TestProviderIsAway(t *testing.T) {
	t.Parallel()
	provider := openid.Start(t, openid.Options{})
	d := startWith(t, 1, provider, func(cfg *signin.Config) { cfg.Provider.Issuer = provider.Issuer })
	provider.Stop(t)
	b := openid.NewBrowser(t)
	p := b.Open(t, d.at(managed)).Expect(t, http.StatusServiceUnavailable, "The dashboard is not available now.")
	assert.NotEmpty(t, p.Header.Get("Retry-After"), "the answer does not say when to try again")
	again := openid.Start(t, openid.Options{Address: provider.Address()})
	testdrive.Eventually(t, "the provider is found", func() bool {
		p = b.Open(t, d.at(managed))
		return p.URL.Path == "/login"
	})

	t.Run("when the code is redeemed", func(t *testing.T) {
		b.Until(signin.CallbackPath)
		back, err := b.Submit(p, openid.Developer)
		require.NoError(t, err)
		b.Until("")
		again.Stop(t)
		b.Open(t, back.Header.Get("Location")).Expect(t, http.StatusServiceUnavailable, "The dashboard is not available now.")
	})
}

// If the keys that check a token are unavailable, the response is a 503 and not a refusal.
func TestKeysAreAway(t *testing.T) {
	t.Parallel()
	d := startWith(t, 1, openid.Start(t, openid.Options{KeysAway: true}), func(*signin.Config) {})
	openid.NewBrowser(t).LogIn(t, d.at(managed), openid.Developer).
		Expect(t, http.StatusServiceUnavailable, "The dashboard is not available now.")
}

// signOut presses the button.
func signOut(t *testing.T, b *openid.Browser, dashboard string) openid.Page {
	p, err := b.Do("POST", dashboard+signin.SignOutPath, url.Values{}, map[string]string{"Sec-Fetch-Site": "same-origin",
		"Origin": dashboard})
	require.NoError(t, err)
	return p.Expect(t, http.StatusOK, "You are signed out")
}

func read[T any](t *testing.T, from testdrive.Tasks, sql string) (v T) {
	from.Scan(t, &v, sql)
	return v
}
