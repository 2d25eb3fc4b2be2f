package httpapi

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
)

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
