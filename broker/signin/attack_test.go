package signin_test

import (
	"encoding/base64"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/broker/signin"
	"mysql-broker/test/openid"
)

// callback signs somebody in at the provider, and returns the URL to which it sends the browser back. change
// alters what the dashboard asks the provider for.
func callback(t *testing.T, b *openid.Browser, address, person string, change func(url.Values)) *url.URL {
	b.Until("/oauth/token/authorize")
	p := b.Open(t, address)
	asked, err := url.Parse(p.Header.Get("Location"))
	require.True(t, err == nil && asked.RawQuery != "",
		"the browser is not sent to the provider: %d %v", p.Status, p.Header)
	query := asked.Query()
	require.True(t, query.Get("code_challenge_method") == "S256" && query.Get("response_type") == "code",
		"the dashboard asks for %v", query)
	if change != nil {
		change(query)
	}
	asked.RawQuery = query.Encode()
	b.Until(signin.CallbackPath)
	p, err = b.Submit(b.Open(t, asked.String()), person)
	require.NoError(t, err)
	b.Until("")
	back, err := url.Parse(p.Header.Get("Location"))
	require.True(t, err == nil && back.Query().Get("code") != "",
		"the provider answered %d %v %s", p.Status, p.Header, p.Text)
	return back
}

func with(u *url.URL, key, value string) string {
	changed, query := *u, u.Query()
	query.Set(key, value)
	changed.RawQuery = query.Encode()
	return changed.String()
}

// expectNobody fails the test if the browser has a session.
func expectNobody(t *testing.T, b *openid.Browser, d dashboard) {
	p := b.Open(t, d.at(managed))
	assert.Equal(t, "/login", p.URL.Path, "somebody is signed in: %d %s", p.Status, p.Text)
}

func TestCallbackThatDoesNotFit(t *testing.T) {
	t.Parallel()
	d := start(t, 1)
	back := func(t *testing.T, change func(url.Values)) (*openid.Browser, *url.URL) {
		b := openid.NewBrowser(t)
		return b, callback(t, b, d.at(managed), openid.Developer, change)
	}
	refused := func(t *testing.T, b *openid.Browser, address, says string) {
		b.Open(t, address).Expect(t, http.StatusBadRequest, says)
		expectNobody(t, b, d)
	}
	const over, failed = "This sign-in is over, or is not yours.", "The sign-in failed."
	t.Run("unchanged", func(t *testing.T) {
		b, u := back(t, nil)
		expect(t, b.Open(t, u.String()), openid.Developer, signin.Manage)
	})
	t.Run("another state", func(t *testing.T) {
		b, u := back(t, nil)
		state := u.Query().Get("state")
		for _, changed := range []string{"", state[:12], state[:len(state)-1], state + "A", strings.ToUpper(state), "é"} {
			b.Open(t, with(u, "state", changed)).Expect(t, http.StatusBadRequest, over)
		}
		expectNobody(t, b, d)
	})
	t.Run("in another browser", func(t *testing.T) {
		_, u := back(t, nil)
		victim := openid.NewBrowser(t)
		victim.Open(t, d.at(visible)) // has a sign-in of its own under way
		refused(t, victim, u.String(), over)
	})
	t.Run("a code that was made for another sign-in", func(t *testing.T) {
		_, theirs := back(t, nil)
		b, u := back(t, nil)
		refused(t, b, with(u, "code", theirs.Query().Get("code")), failed)
	})
	t.Run("a code that is none", func(t *testing.T) {
		for _, code := range []string{"", "x", strings.Repeat("y", 5000)} {
			b, u := back(t, nil)
			refused(t, b, with(u, "code", code), failed)
		}
	})
	t.Run("another code challenge or nonce", func(t *testing.T) {
		for _, changed := range []url.Values{{"nonce": {""}}, {"nonce": {"another"}},
			{"code_challenge": {base64.RawURLEncoding.EncodeToString(make([]byte, 32))}}} {
			b, u := back(t, func(q url.Values) { maps.Copy(q, changed) })
			refused(t, b, u.String(), failed)
		}
	})
	t.Run("twice", func(t *testing.T) {
		b, u := back(t, nil)
		attempt := b.Cookies(t, d.URL, "attempt")[0]
		expect(t, b.Open(t, u.String()), openid.Developer, signin.Manage)
		b.Open(t, u.String()).Expect(t, http.StatusBadRequest, over)
		expect(t, b.Open(t, d.at(managed)), openid.Developer, signin.Manage) // and who is signed in stays so

		thief := openid.NewBrowser(t)
		thief.SetCookie(t, d.URL, attempt)
		refused(t, thief, u.String(), failed)
	})
}

// The provider's message comes through the browser, so anybody can forge it.
func TestProviderRefuses(t *testing.T) {
	t.Parallel()
	d := start(t, 1)
	for code, want := range map[string]int{"access_denied": http.StatusForbidden, "invalid_scope": http.StatusBadRequest,
		"<script>alert(1)</script>": http.StatusBadRequest} {
		b := openid.NewBrowser(t)
		u := callback(t, b, d.at(managed), openid.Developer, nil)
		query := url.Values{"state": {u.Query().Get("state")}, "error": {code},
			"error_description": {"<script>alert(2)</script>"}}
		u.RawQuery = query.Encode()
		p := b.Open(t, u.String()).Expect(t, want, "The sign-in failed.")
		assert.NotContains(t, p.Text, "alert")
		assert.Equal(t, d.at(managed), link(t, p), "the page leads to")
		assert.Regexp(t, "^default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'",
			p.Header.Get("Content-Security-Policy"))
	}
}

// A sign-in ends at a page of the dashboard, wherever it began.
func TestReturnAddress(t *testing.T) {
	t.Parallel()
	d := start(t, 1)
	for _, address := range []string{"https://evil.example.com/", "//evil.example.com/", "/\\evil.example.com/",
		"/dashboard", "/v2/catalog", "javascript:alert(1)", "/dashboard/\r\nSet-Cookie: a=b", "/dashboard/\x00", "",
		"/dashboard/" + strings.Repeat("x", 2000)} {
		b := openid.NewBrowser(t)
		u := callback(t, b, d.at(managed), openid.Developer, nil)
		attempt := b.Cookies(t, d.URL, "attempt")[0]
		key, _, _ := strings.Cut(attempt.Value, ".")
		attempt.Value = key + "." + base64.RawURLEncoding.EncodeToString([]byte(address))
		b.SetCookie(t, d.URL, attempt)
		p := b.Open(t, u.String()).Expect(t, http.StatusOK, "You are signed in as dora.")
		assert.Equal(t, d.URL+signin.Path, p.URL.String(), "with %q the sign-in ended at %s", address, p.URL)
	}
	long := d.URL + "/dashboard/?x=" + strings.Repeat("y", 2000)
	openid.NewBrowser(t).LogIn(t, long, openid.Developer).Expect(t, http.StatusOK, "You are signed in as dora.")
}

func TestParallelTabs(t *testing.T) {
	t.Parallel()
	d := start(t, 1)
	b := openid.NewBrowser(t)
	first := callback(t, b, d.at(managed), openid.Developer, nil)
	second := callback(t, b, d.at(visible), openid.Developer, nil)
	assert.Equal(t, d.at(visible), b.Open(t, second.String()).URL.String())
	assert.Equal(t, d.at(managed), b.Open(t, first.String()).URL.String())
	assert.Equal(t, 1, read[int](t, d.records, "SELECT count(*) FROM session"), "sessions at one browser")

	other := openid.NewBrowser(t)
	for range 100 {
		other.Open(t, d.at(managed))
	}
	assert.LessOrEqual(t, len(other.Cookies(t, d.URL, "attempt")), 8, "sign-ins that are under way")
	expect(t, other.LogIn(t, d.at(managed), openid.Developer), openid.Developer, signin.Manage)
}

func TestCookieThatIsNone(t *testing.T) {
	t.Parallel()
	d := start(t, 1)
	b := openid.NewBrowser(t)
	b.LogIn(t, d.at(managed), openid.Developer)
	good := b.Cookies(t, d.URL, "session")[0]
	flipped := "A" + good.Value[1:]
	if flipped == good.Value {
		flipped = "B" + good.Value[1:]
	}
	for _, value := range []string{"", "x", flipped, good.Value + "A", good.Value[1:], strings.Repeat("A", 43),
		strings.Repeat("A", 3000)} {
		thief := openid.NewBrowser(t)
		forged := *good
		forged.Value = value
		thief.SetCookie(t, d.URL, &forged)
		expectNobody(t, thief, d)
	}
}

// link returns the target of the only link on a page.
func link(t *testing.T, p openid.Page) string {
	_, rest, ok := strings.Cut(p.Text, `<a href="`)
	address, _, closed := strings.Cut(rest, `"`)
	require.True(t, ok && closed, "the page has no link: %s", p.Text)
	u, err := p.URL.Parse(strings.ReplaceAll(address, "&amp;", "&"))
	require.NoError(t, err)
	return u.String()
}
