package httpapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A client that guesses is refused, even with the right password. The platform is not affected.
func TestGuessing(t *testing.T) {
	t.Parallel()
	s := newServerWith(t, &recordingBroker{}, Proxies{Nearest: true})
	login := func(forwarded, password string) reply {
		return s.do(t, request{method: "GET", target: "/v2/catalog", header: map[string]string{
			"X-Forwarded-For": forwarded, "Authorization": basic("broker", password)}})
	}
	for i := range failuresAtOnce {
		got := login(fmt.Sprintf("10.0.0.%d, 198.51.100.1", i), fmt.Sprint("guess ", i))
		assert.Equal(t, 401, got.status, "guess %d: answer %d %v", i, got.status, got.object)
	}
	for _, password := range []string{"another guess", testPassword} {
		got := login("198.51.100.1", password)
		assert.True(t, got.status == 429 && strings.Contains(got.description(), "Too many logins"),
			"%s: answer %d %v", password, got.status, got.object)
		after := got.header.Get("Retry-After")
		assert.True(t, slices.Contains([]string{"4", "5", "6"}, after), "Retry-After %q", after)
	}
	got := login("198.51.100.2", testPassword)
	assert.Equal(t, 200, got.status, "the platform: answer %d %v", got.status, got.object)
	checkGuessesAreReported(t, s)
}

func checkGuessesAreReported(t *testing.T, s *server) {
	t.Helper()
	refusedFromNowOn := 0
	lines := s.waitForLog(t, failuresAtOnce+3)
	failures := slices.DeleteFunc(lines, func(line map[string]any) bool { return line["msg"] != "failed login" })
	for _, line := range failures {
		assert.True(t, line["level"] == "WARN" && line["source"] == "198.51.100.1" && line["request_id"] == testIdentity,
			"log line %v", line)
		last := line["refused_from_now_on"] == true
		if last {
			refusedFromNowOn++
		}
		assert.Equal(t, last, line["to_do"] == nameProxy, "%v", line) // each guess had an entry more than the router's
	}
	assert.True(t, len(failures) == failuresAtOnce && refusedFromNowOn == 1,
		"%d failed logins in the log, %d of them the last", len(failures), refusedFromNowOn)
	for _, secret := range []string{"guess", testPassword} {
		assert.False(t, strings.Contains(s.log.String(), secret), "the log holds %q", secret)
	}
	assert.EqualValues(t, failuresAtOnce, s.counted(t)["mysql_broker_failed_logins_total"])
}

// Requests without credentials are no guesses: health checks and browsers send them.
func TestNoCredentialsAreNoGuess(t *testing.T) {
	t.Parallel()
	s := newServer(t, &recordingBroker{})
	for _, authorization := range []string{"", "Bearer x", "Basic !"} {
		for range 2 * failuresAtOnce {
			got := s.do(t, request{method: "GET", target: "/v2/catalog", header: map[string]string{
				"Authorization": authorization}})
			require.Equal(t, 401, got.status, "%q: answer %d %v", authorization, got.status, got.object)
		}
	}
	got := s.do(t, request{method: "GET", target: "/v2/catalog"})
	assert.Equal(t, 200, got.status, "answer %d %v", got.status, got.object)
}

func TestNewRefusesUnsafeCredentials(t *testing.T) {
	t.Parallel()
	for name, credentials := range map[string][]Credential{
		"none":           nil,
		"empty user":     {{"", "p"}},
		"empty password": {{"u", "p"}, {"v", ""}},
		"colon":          {{"u:v", "p"}},
	} {
		h, err := New(&recordingBroker{}, Config{Credentials: credentials})
		assert.True(t, err != nil && h == nil, "%s: handler %v, error %v", name, h, err)
	}
}
