package httpapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"
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
		if got := login(fmt.Sprintf("10.0.0.%d, 198.51.100.1", i), fmt.Sprint("guess ", i)); got.status != 401 {
			t.Errorf("guess %d: answer %d %v", i, got.status, got.object)
		}
	}
	for _, password := range []string{"another guess", testPassword} {
		got := login("198.51.100.1", password)
		if got.status != 429 || !strings.Contains(got.description(), "Too many logins") {
			t.Errorf("%s: answer %d %v", password, got.status, got.object)
		}
		if after := got.header.Get("Retry-After"); !slices.Contains([]string{"4", "5", "6"}, after) {
			t.Errorf("Retry-After %q", after)
		}
	}
	if got := login("198.51.100.2", testPassword); got.status != 200 {
		t.Errorf("the platform: answer %d %v", got.status, got.object)
	}
	checkGuessesAreReported(t, s)
}

func checkGuessesAreReported(t *testing.T, s *server) {
	t.Helper()
	refusedFromNowOn := 0
	lines := s.waitForLog(t, failuresAtOnce+3)
	failures := slices.DeleteFunc(lines, func(line map[string]any) bool { return line["msg"] != "failed login" })
	for _, line := range failures {
		if line["level"] != "WARN" || line["source"] != "198.51.100.1" || line["request_id"] != testIdentity {
			t.Errorf("log line %v", line)
		}
		last := line["refused_from_now_on"] == true
		if last {
			refusedFromNowOn++
		}
		if (line["to_do"] == nameProxy) != last { // each guess had an entry more than the router's
			t.Errorf("log line %v", line)
		}
	}
	if len(failures) != failuresAtOnce || refusedFromNowOn != 1 {
		t.Errorf("%d failed logins in the log, %d of them the last", len(failures), refusedFromNowOn)
	}
	for _, secret := range []string{"guess", testPassword} {
		if strings.Contains(s.log.String(), secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
	families, err := s.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "mysql_broker_failed_logins_total" {
			if got := family.GetMetric()[0].GetCounter().GetValue(); got != failuresAtOnce {
				t.Errorf("%v failed logins are counted", got)
			}
			return
		}
	}
	t.Error("failed logins are not counted")
}

// Requests without credentials are no guesses: health checks and browsers send them.
func TestNoCredentialsAreNoGuess(t *testing.T) {
	t.Parallel()
	s := newServer(t, &recordingBroker{})
	for _, authorization := range []string{"", "Bearer x", "Basic !"} {
		for range 2 * failuresAtOnce {
			got := s.do(t, request{method: "GET", target: "/v2/catalog", header: map[string]string{
				"Authorization": authorization}})
			if got.status != 401 {
				t.Fatalf("%q: answer %d %v", authorization, got.status, got.object)
			}
		}
	}
	if got := s.do(t, request{method: "GET", target: "/v2/catalog"}); got.status != 200 {
		t.Errorf("answer %d %v", got.status, got.object)
	}
}
