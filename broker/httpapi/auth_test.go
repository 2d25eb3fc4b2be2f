package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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

	refusedFromNowOn := 0
	failures := slices.DeleteFunc(s.lines(t), func(line map[string]any) bool { return line["msg"] != "failed login" })
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

// Neither unsafe credentials nor a broker without a catalog are taken.
func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]struct {
		broker      Broker
		credentials []Credential
	}{
		"none":           {&recordingBroker{}, nil},
		"empty user":     {&recordingBroker{}, []Credential{{"", "p"}}},
		"empty password": {&recordingBroker{}, []Credential{{"u", "p"}, {"v", ""}}},
		"colon":          {&recordingBroker{}, []Credential{{"u:v", "p"}}},
		"no catalog":     {&catalogBroker{err: errors.New("no catalog today")}, []Credential{{"u", "p"}}},
	} {
		h, err := New(refused.broker, Config{Credentials: refused.credentials, Registerer: prometheus.NewRegistry(),
			Logger: slog.New(slog.DiscardHandler)})
		assert.True(t, err != nil && h == nil, "%s: handler %v, error %v", name, h, err)
	}
}

var (
	someone     = netip.MustParseAddr("192.0.2.1")
	someoneElse = netip.MustParseAddr("192.0.2.2")
	start       = time.Now()
)

func TestFailedLoginsAreLimited(t *testing.T) {
	t.Parallel()
	f := &failedLogins{}
	for i := range failuresAtOnce {
		wait, last := f.admit(someone, false, start)
		require.True(t, wait <= 0 && last == (i == failuresAtOnce-1), "failure %d: wait %v, last %t", i+1, wait, last)
	}
	// Refused logins do not put off the time when the next one is admitted, be they right or wrong.
	for _, right := range []bool{false, true, false} {
		wait, _ := f.admit(someone, right, start)
		assert.Equal(t, failureInterval, wait, "right %t: wait", right)
		wait, _ = f.admit(someone, right, start.Add(failureInterval-time.Second))
		assert.Equal(t, time.Second, wait, "right %t, 1 s before the end: wait", right)
		wait, _ = f.admit(someoneElse, true, start)
		assert.EqualValues(t, 0, wait, "another source waits")
	}
	later := start.Add(failureInterval)
	wait, _ := f.admit(someone, true, later)
	assert.Zero(t, wait, "the right password")
	wait, last := f.admit(someone, false, later)
	assert.True(t, wait == 0 && last, "one more failure: wait %v, last %t", wait, last)
	wait, _ = f.admit(someone, true, later)
	assert.Equal(t, failureInterval, wait, "after one more failure: wait")
}

// In a whole day, a client gets only the guesses at the beginning and one in each interval.
func TestGuessesInADay(t *testing.T) {
	t.Parallel()
	f := &failedLogins{}
	guesses := 0
	const day = 24 * time.Hour
	for at := time.Duration(0); at < day; at += 100 * time.Millisecond {
		if wait, _ := f.admit(someone, false, start.Add(at)); wait == 0 {
			guesses++
		}
		if at%time.Minute == 0 {
			f.admit(someoneElse, false, start.Add(at)) // the generations turn
		}
	}
	assert.Equal(t, failuresAtOnce+int(day/failureInterval)-1, guesses, "%d guesses", guesses)
}

func TestGuessesAtTheSameTime(t *testing.T) {
	t.Parallel()
	f := &failedLogins{}
	var admitted atomic.Int32
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			if wait, _ := f.admit(someone, false, start); wait == 0 {
				admitted.Add(1)
			}
		})
	}
	all.Wait()
	n := admitted.Load()
	assert.True(t, n == failuresAtOnce, "%d guesses were admitted, want %d", n, failuresAtOnce)
}

func TestSourcesTakeBoundedMemory(t *testing.T) {
	t.Parallel()
	f := &failedLogins{}
	source := netip.MustParseAddr("10.0.0.1")
	for range 5 * maxSources {
		f.admit(source, false, start)
		source = source.Next()
	}
	n := len(f.recent) + len(f.older)
	assert.True(t, n <= 2*maxSources, "%d sources are remembered", n)
	assert.Len(t, f.older, maxSources, "%d sources are remembered from before, want %d", len(f.older), maxSources)
	f.admit(someone, false, start.Add(failuresAtOnce*failureInterval+1))
	f.admit(someone, false, start.Add(3*failuresAtOnce*failureInterval))
	n = len(f.recent) + len(f.older)
	assert.Equal(t, 2, n, "%d sources are remembered when all is forgiven", n)
	f.admit(someoneElse, true, start)
	_, remembered := f.recent[someoneElse]
	assert.False(t, remembered, "a source that has not failed is remembered")
}

func TestSource(t *testing.T) {
	t.Parallel()
	direct, router := Proxies{}, Proxies{Nearest: true}
	balanced := Proxies{Nearest: true, Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	behind := Proxies{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	for _, c := range []struct {
		name        string
		proxies     Proxies
		peer        string
		forwarded   []string
		want        string
		disbelieved bool
	}{
		{"direct", direct, "192.0.2.1:1234", nil, "192.0.2.1", false},
		{"direct, invented header", direct, "192.0.2.1:1234", []string{"198.51.100.1"}, "192.0.2.1", true},
		{"direct IPv6", direct, "[2001:db8:1:2:3:4:5:6]:1", nil, "2001:db8:1:2::", false},
		{"same /64", direct, "[2001:db8:1:2:ffff::]:1", nil, "2001:db8:1:2::", false},
		{"zone", direct, "[fe80::1%eth0]:1", nil, "fe80::", false},
		{"IPv4 in IPv6", direct, "[::ffff:192.0.2.1]:1", nil, "192.0.2.1", false},
		{"no address", direct, "@", nil, "invalid IP", false},

		{"router", router, "127.0.0.1:1", []string{"198.51.100.1"}, "198.51.100.1", false},
		{"router, invented entries", router, "127.0.0.1:1", []string{"6.6.6.6, 7.7.7.7 ,198.51.100.1"}, "198.51.100.1", true},
		{"router, invented header", router, "127.0.0.1:1", []string{"6.6.6.6", "198.51.100.1"}, "198.51.100.1", true},
		{"router, no header", router, "127.0.0.1:1", nil, "127.0.0.1", false},
		{"router, no address", router, "127.0.0.1:1", []string{"198.51.100.1, unknown"}, "127.0.0.1", false},
		{"router, port", router, "127.0.0.1:1", []string{"198.51.100.1:4711"}, "198.51.100.1", false},
		{"router, IPv6 and port", router, "127.0.0.1:1", []string{"[2001:db8::1]:4711"}, "2001:db8::", false},
		{"router, IPv6", router, "127.0.0.1:1", []string{"2001:db8:0:0:1::1"}, "2001:db8::", false},

		{"balancer", balanced, "127.0.0.1:1", []string{"6.6.6.6, 198.51.100.1, 10.1.2.3"}, "198.51.100.1", true},
		{"balancers", balanced, "127.0.0.1:1", []string{"198.51.100.1, 10.9.9.9", "::ffff:10.1.2.3"}, "198.51.100.1", false},
		{"inside the balancer", balanced, "127.0.0.1:1", []string{"10.1.2.3"}, "10.1.2.3", false},
		{"past the balancer", balanced, "127.0.0.1:1", []string{"6.6.6.6, 192.0.2.1"}, "192.0.2.1", true},
		{"no address before the balancer", balanced, "127.0.0.1:1", []string{"unknown, 10.1.2.3"}, "10.1.2.3", false},

		{"through a known proxy", behind, "10.0.0.1:1", []string{"6.6.6.6, 198.51.100.1"}, "198.51.100.1", true},
		{"not through a known proxy", behind, "192.0.2.1:1", []string{"6.6.6.6"}, "192.0.2.1", true},
	} {
		r := &http.Request{RemoteAddr: c.peer, Header: http.Header{"X-Forwarded-For": c.forwarded}}
		got, disbelieved := c.proxies.source(r)
		assert.Equal(t, c.want, got.String(), c.name)
		assert.Equal(t, c.disbelieved, disbelieved, c.name)
	}
}
