package signin_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"mysql-broker/broker/signin"
	"mysql-broker/test/limits"
	"mysql-broker/test/openid"
)

func TestSignIn(t *testing.T) {
	t.Parallel()
	d := start(t, 1)
	b := openid.NewBrowser(t)
	page := b.LogIn(t, d.at(managed)+"?since=1h&x=%2F", openid.Developer)
	expect(t, page, openid.Developer, signin.Manage)
	if page.URL.String() != d.at(managed)+"?since=1h&x=%2F" {
		t.Errorf("the sign-in ended at %s", page.URL)
	}
	if page.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("the page may be kept: %q", page.Header)
	}
	cookies := b.Cookies(t, d.URL, "")
	if len(cookies) != 1 || len(cookies[0].Value) > 100 {
		t.Errorf("the browser keeps %v", cookies)
	}
	b.Open(t, d.URL+signin.Path).Expect(t, http.StatusOK, "You are signed in as dora.")
	if n := read[int](t, d.Postgres, "SELECT count(*) FROM session"); n != 1 {
		t.Errorf("%d sessions for one sign-in", n)
	}
	// UAA's tokens are long: these have 300 groups.
	if n := read[int](t, d.Postgres, "SELECT length(sealed) FROM session"); n < 8192 {
		t.Errorf("the session takes %d bytes: the token is not as large as it is meant to be", n)
	}
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
			if asked := d.cloud.Asked() - before; asked != tt.asks {
				t.Errorf("Cloud Controller was asked %d times", asked)
			}
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
	if cookies := b.Cookies(t, d.URL, ""); len(cookies) != 0 {
		t.Errorf("who was refused has %v", cookies)
	}
	b.Open(t, link(t, refusal)).Expect(t, http.StatusOK, "You are signed out.")
}

func TestTwoReplicas(t *testing.T) {
	t.Parallel()
	d := start(t, 2)
	b := openid.NewBrowser(t)
	expect(t, b.LogIn(t, d.at(managed), openid.Developer), openid.Developer, signin.Manage)
	for range 4 {
		expect(t, b.Open(t, d.at(visible)), openid.Developer, signin.Read)
	}
	kept := b.Cookies(t, d.URL, "session")[0]
	signOut(t, b, d.URL)
	for range 4 {
		thief := openid.NewBrowser(t)
		thief.SetCookie(t, d.URL, kept)
		if p := thief.Open(t, d.at(managed)); p.URL.Path != "/login" {
			t.Errorf("after the sign-out, the cookie opens %s", p.URL)
		}
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
			if err != nil {
				t.Error(err)
				return
			}
			for range 5 {
				var got shown
				if err := json.Unmarshal([]byte(p.Text), &got); err != nil || got.Viewer.Name != person {
					t.Errorf("%s sees %d: %s", person, p.Status, p.Text)
				}
				if p, err = b.Do("GET", d.at(managed), nil, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// Requests of scripts are not redirected to a page for people.
func TestWhatIsNoPage(t *testing.T) {
	t.Parallel()
	d := start(t, 1)
	b := openid.NewBrowser(t)
	for _, headers := range []map[string]string{{"Accept": "text/event-stream"}, {"Accept": "*/*"},
		{"Sec-Fetch-Mode": "cors"}} {
		p, err := b.Do("GET", d.URL+"/dashboard/stream", nil, headers)
		if err != nil {
			t.Fatal(err)
		}
		p.Expect(t, http.StatusUnauthorized, "Nobody is signed in")
	}
	p, err := b.Do("POST", d.at(managed), url.Values{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.Expect(t, http.StatusUnauthorized, "Nobody is signed in")
	if cookies := b.Cookies(t, d.URL, ""); len(cookies) != 0 {
		t.Errorf("scripts were given %v", cookies)
	}
}

func TestSessionEnds(t *testing.T) {
	t.Parallel()
	d := start(t, 1)
	b := openid.NewBrowser(t)
	b.LogIn(t, d.at(managed), openid.Developer)
	left := read[time.Duration](t, d.Postgres, "SELECT max(ends_at) - now() FROM session")
	if left > time.Hour-10*time.Second || left < 50*time.Minute { // 10 s before the token expires
		t.Errorf("a developer's session lasts %v, the access token an hour", left)
	}
	openid.NewBrowser(t).LogIn(t, d.at(managed), openid.Operator)
	left = read[time.Duration](t, d.Postgres, "SELECT max(ends_at) - now() FROM session")
	if left > 8*time.Hour || left < 8*time.Hour-time.Minute {
		t.Errorf("an operator's session lasts %v", left)
	}
	run(t, d.Postgres, "UPDATE session SET ends_at = now()")
	expect(t, b.LogIn(t, d.at(managed), openid.Developer), openid.Developer, signin.Manage)
	if n := read[int](t, d.Postgres, "SELECT count(*) FROM session"); n != 1 {
		t.Errorf("%d sessions are kept, of which 1 has not ended", n)
	}
}

// An open stream ends with its session.
func TestStreamEndsWithTheSession(t *testing.T) {
	t.Parallel()
	d := start(t, 1)
	b := openid.NewBrowser(t)
	expect(t, b.LogIn(t, d.at(managed), openid.Developer), openid.Developer, signin.Manage)
	// Long enough for the stream to begin meanwhile on a busy machine.
	run(t, d.Postgres, "UPDATE session SET ends_at = now() + interval '10 s'")
	if p := b.Open(t, d.URL+"/dashboard/stream"); p.Text != "begun\n" {
		t.Fatalf("%d %s", p.Status, p.Text)
	}
	if left := read[time.Duration](t, d.Postgres, "SELECT max(ends_at) - now() FROM session"); left > time.Second {
		t.Errorf("the stream ended %v before the session", left)
	}
	if p := b.Open(t, d.at(managed)); p.URL.Path != "/login" {
		t.Errorf("after its end, the session opens %s: %d", p.URL, p.Status)
	}
}

func TestSignOut(t *testing.T) {
	t.Parallel()
	d := start(t, 1)
	b := openid.NewBrowser(t)
	b.LogIn(t, d.at(managed), openid.Developer)
	for _, headers := range []map[string]string{{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
		{"Origin": "https://evil.example.com"}} {
		p, err := b.Do("POST", d.URL+signin.SignOutPath, url.Values{}, headers)
		if err != nil {
			t.Fatal(err)
		}
		p.Expect(t, http.StatusForbidden, "")
	}
	b.Open(t, d.URL+signin.SignOutPath).Expect(t, http.StatusOK, "You are still signed in.")
	expect(t, b.Open(t, d.at(managed)), openid.Developer, signin.Manage)

	p := signOut(t, b, d.URL)
	refresh, ok := strings.CutPrefix(p.Header.Get("Refresh"), "0; url=")
	if !ok || !strings.HasPrefix(refresh, d.provider.Issuer) {
		t.Fatalf("the browser is not sent to the provider's sign-out: %q", p.Header)
	}
	if back := b.Open(t, refresh).Expect(t, http.StatusOK, "You are signed out."); back.URL.Path != signin.SignOutPath {
		t.Errorf("the provider sent the browser to %s", back.URL)
	}
	if cookies := b.Cookies(t, d.URL, ""); len(cookies) != 0 {
		t.Errorf("the browser keeps %v", cookies)
	}
	if got := b.Open(t, refresh).Header.Get("Clear-Site-Data"); got != `"cache"` {
		t.Errorf("the browser is told to forget %q", got)
	}
	if n := read[int](t, d.Postgres, "SELECT count(*) FROM session"); n != 0 {
		t.Errorf("%d sessions are kept", n)
	}
	if p := b.Open(t, d.at(managed)); p.URL.Path != "/login" {
		t.Errorf("after the sign-out, the page is %s", p.URL)
	}
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
	b.Transport.(*http.Transport).TLSClientConfig = insecure()
	var set []*http.Cookie
	b.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		set = append(set, r.Response.Cookies()...)
		return nil
	}
	expect(t, b.LogIn(t, d.at(managed), openid.Developer), openid.Developer, signin.Manage)
	ours := 0
	for _, c := range set {
		if !strings.Contains(c.Name, "mysql-broker") {
			continue
		}
		ours++
		if !strings.HasPrefix(c.Name, "__Host-") || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode ||
			c.Path != "/" || c.Domain != "" {
			t.Errorf("cookie %s", c)
		}
	}
	if ours != 3 { // the attempt, its end, the session
		t.Errorf("%d cookies were set: %v", ours, set)
	}
}

func TestPostgreSQLIsAway(t *testing.T) {
	t.Parallel()
	d := start(t, 1)
	b := openid.NewBrowser(t)
	b.LogIn(t, d.at(managed), openid.Developer)
	run(t, d.Postgres, "ALTER TABLE session RENAME TO away")
	p := b.Open(t, d.at(managed)).Expect(t, http.StatusServiceUnavailable, "The dashboard is not available now.")
	if p.Header.Get("Retry-After") == "" {
		t.Error("the answer does not say when to try again")
	}
	run(t, d.Postgres, "ALTER TABLE away RENAME TO session")
	expect(t, b.Open(t, d.at(managed)), openid.Developer, signin.Manage)

	run(t, d.Postgres, "UPDATE session SET sealed = sealed || '\\x00'")
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
		if p.Header.Get("Retry-After") == "" {
			t.Error("the answer does not say when to try again")
		}
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
			if p, err := b.Do("GET", d.at(managed), nil, nil); err != nil || p.Status != http.StatusOK {
				t.Error(p.Status, err)
			}
		})
	}
	all.Wait()
	if asked := d.cloud.Asked(); asked != 1 {
		t.Errorf("Cloud Controller was asked %d times", asked)
	}
}

func TestProviderIsAway(t *testing.T) {
	t.Parallel()
	provider := openid.Start(t, openid.Options{})
	d := startWith(t, 1, provider, func(cfg *signin.Config) { cfg.Provider.Issuer = provider.Issuer })
	provider.Stop()
	b := openid.NewBrowser(t)
	p := b.Open(t, d.at(managed)).Expect(t, http.StatusServiceUnavailable, "The dashboard is not available now.")
	if p.Header.Get("Retry-After") == "" {
		t.Error("the answer does not say when to try again")
	}
	again := openid.Start(t, openid.Options{Address: provider.Address()})
	for deadline := time.Now().Add(limits.Stuck); p.URL.Path != "/login"; p = b.Open(t, d.at(managed)) {
		if time.Now().After(deadline) {
			t.Fatalf("the provider is there, and is not found: %d %s", p.Status, p.Text)
		}
		time.Sleep(50 * time.Millisecond)
	}

	t.Run("when the code is redeemed", func(t *testing.T) {
		b.Until(signin.CallbackPath)
		back, err := b.Submit(p, openid.Developer)
		if err != nil {
			t.Fatal(err)
		}
		b.Until("")
		again.Stop()
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
	t.Helper()
	p, err := b.Do("POST", dashboard+signin.SignOutPath, url.Values{}, map[string]string{"Sec-Fetch-Site": "same-origin",
		"Origin": dashboard})
	if err != nil {
		t.Fatal(err)
	}
	return p.Expect(t, http.StatusOK, "You are signed out")
}

// run runs a statement as the broker's database administrator.
func run(t *testing.T, postgres, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), postgres)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func read[T any](t *testing.T, postgres, sql string) (v T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), postgres)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if err := conn.QueryRow(t.Context(), sql).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}
