package e2e

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// Behind Cloud Foundry's router, which appends the client's address to X-Forwarded-For, whoever guesses passwords
// locks out himself alone.
func TestGuessingThroughTheRouter(t *testing.T) {
	t.Parallel()
	env := firstEnvironment(t)
	env["VCAP_APPLICATION"] = `{"application_name":"mysql-broker"}`
	p := startPlatform(t, servers.AllMySQL(t)[0], env)
	p.guess(t, func(i int) string { return fmt.Sprintf("10.0.0.%d, 198.51.100.1", i) })
	for _, platform := range []string{"10.0.0.1, 198.51.100.2", "10.0.0.1", ""} {
		p.DoWith(t, "GET", "/v2/catalog", nil, map[string]string{"X-Forwarded-For": platform}).Expect(t, 200)
	}
	p.expectLockedOut(t, "198.51.100.1")
}

// Where clients connect without a proxy, a header of their own makes them nobody else.
func TestGuessingDirectly(t *testing.T) {
	t.Parallel()
	p := startPlatform(t, servers.AllMySQL(t)[0], firstEnvironment(t))
	p.guess(t, func(i int) string { return fmt.Sprintf("198.51.100.%d", i) })
	p.expectLockedOut(t, "198.51.100.99")
}

// guess sends wrong passwords until they are refused unread, which must be after ten or, as time passes, a few more.
func (p platform) guess(t *testing.T, forwarded func(i int) string) {
	t.Helper()
	const most = 100 // 9 minutes' worth
	for i := range most {
		r := p.guessOnce(t, forwarded(i), i)
		if r.Status == 401 {
			continue
		}
		expectRefusal(t, r, 429, "Too many logins", "seconds")
		if r.Header.Get("Retry-After") == "" || i < 10 {
			t.Errorf("refused after %d guesses with Retry-After %q", i, r.Header.Get("Retry-After"))
		}
		if failed := p.Scrape(t)["mysql_broker_failed_logins_total"]; failed != fmt.Sprint(i) {
			t.Errorf("%s failed logins are counted instead of %d", failed, i)
		}
		if line := p.AwaitLog(t, `"refused_from_now_on":true`); !strings.Contains(line, "TRUSTED_PROXIES") {
			t.Errorf("no hint at what may be wrong: %s", line)
		}
		return
	}
	t.Fatalf("%d guesses were let through", most)
}

func (p platform) guessOnce(t *testing.T, forwarded string, n int) testdrive.Response {
	t.Helper()
	return p.DoWith(t, "GET", "/v2/catalog", nil, map[string]string{"X-Forwarded-For": forwarded,
		"Authorization": "Basic " + base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "platform:guess %d", n))})
}

// expectLockedOut fails the test unless whoever has guessed too often is refused with the right password as well. As time
// passes he may log in once now and then: he does so before, wrongly, so that he may not for some seconds.
func (p platform) expectLockedOut(t *testing.T, forwarded string) {
	t.Helper()
	n, last := 0, 0
	testdrive.Eventually(t, time.Minute, "a guess is let through, and the next one is not", func() bool {
		before := last
		last = p.guessOnce(t, forwarded, n).Status
		n++
		return before == 401 && last == 429
	})
	p.DoWith(t, "GET", "/v2/catalog", nil, map[string]string{"X-Forwarded-For": forwarded}).Expect(t, 429)
}
