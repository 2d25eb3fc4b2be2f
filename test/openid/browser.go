package openid

import (
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/limits"
)

// Browser keeps cookies and follows redirects, as one that a person uses.
type Browser struct {
	*http.Client
}

// NewBrowser returns a browser that nobody has used yet.
func NewBrowser(t testing.TB) *Browser {
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return &Browser{&http.Client{Jar: jar, Timeout: limits.Stuck, Transport: &http.Transport{}}}
}

// Page is what a browser shows.
type Page struct {
	Status int
	URL    *url.URL // after redirects
	Header http.Header
	Text   string
}

// Expect fails the test unless the page has this status and contains these texts, as they are or escaped, and returns the
// page.
func (p Page) Expect(t testing.TB, status int, texts ...string) Page {
	require.Equal(t, status, p.Status, "%s is answered with\n%s", p.URL, p.Text)
	for _, text := range texts {
		require.Contains(t, p.Text+html.UnescapeString(p.Text), text, "%s", p.URL)
	}
	return p
}

// Lacks fails the test if the page contains one of these texts.
func (p Page) Lacks(t testing.TB, texts ...string) {
	for n, text := range texts { // which may be a password
		assert.False(t, strings.Contains(p.Text, text), "%s has text %d of those that it may not have", p.URL, n)
	}
}

func (b *Browser) Open(t testing.TB, address string) Page {
	p, err := b.Do("GET", address, nil, nil)
	require.NoError(t, err)
	return p
}

// Do sends a request with more headers than browsers send for pages, or others; form may be nil.
func (b *Browser) Do(method, address string, form url.Values, headers map[string]string) (Page, error) {
	r, err := http.NewRequest(method, address, strings.NewReader(form.Encode()))
	if err != nil {
		return Page{}, err
	}
	r.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	answer, err := b.Client.Do(r)
	if err != nil {
		return Page{}, err
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	return Page{answer.StatusCode, answer.Request.URL, answer.Header, string(raw)}, err
}

var request = regexp.MustCompile(`name="request" value="([^"]*)"`)

// LogIn opens a page of the dashboard and, at the provider, gives somebody's name and password.
func (b *Browser) LogIn(t testing.TB, address, person string) Page {
	p, err := b.TryLogIn(address, person)
	require.NoError(t, err)
	return p
}

// TryLogIn is LogIn for goroutines, which cannot end a test.
func (b *Browser) TryLogIn(address, person string) (Page, error) {
	p, err := b.Do("GET", address, nil, nil)
	if err != nil || p.URL.Path != "/login" {
		return p, err
	}
	return b.Submit(p, person)
}

// Submit gives a name and the password on the provider's page.
func (b *Browser) Submit(p Page, person string) (Page, error) {
	found := request.FindStringSubmatch(p.Text)
	if found == nil {
		return p, nil
	}
	return b.Do("POST", p.URL.String(), url.Values{"request": {found[1]}, "username": {person}, "password": {Password}},
		nil)
}

// Until has the browser stop before it follows a redirect to a path, and show that response. "" has it follow all.
func (b *Browser) Until(path string) {
	b.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if path != "" && r.URL.Path == path {
			return http.ErrUseLastResponse
		}
		return nil
	}
}

// Cookies are those that the browser would send to an address, whose names contain a text.
func (b *Browser) Cookies(t testing.TB, address, text string) (found []*http.Cookie) {
	u, err := url.Parse(address)
	require.NoError(t, err)
	for _, c := range b.Jar.Cookies(u) {
		if strings.Contains(c.Name, text) {
			found = append(found, c)
		}
	}
	return found
}

// SetCookie has the browser send a cookie to an address.
func (b *Browser) SetCookie(t testing.TB, address string, c *http.Cookie) {
	u, err := url.Parse(address)
	require.NoError(t, err)
	c.Path, c.Expires = "/", time.Now().Add(time.Hour)
	b.Jar.SetCookies(u, []*http.Cookie{c})
}
