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
		name      string
		proxies   Proxies
		peer      string
		forwarded []string
		want      string
	}{
		{"direct", direct, "192.0.2.1:1234", nil, "192.0.2.1"},
		{"direct, invented header", direct, "192.0.2.1:1234", []string{"198.51.100.1"}, "192.0.2.1"},
		{"direct IPv6", direct, "[2001:db8:1:2:3:4:5:6]:1", nil, "2001:db8:1:2::"},
		{"same /64", direct, "[2001:db8:1:2:ffff::]:1", nil, "2001:db8:1:2::"},
		{"zone", direct, "[fe80::1%eth0]:1", nil, "fe80::"},
		{"IPv4 in IPv6", direct, "[::ffff:192.0.2.1]:1", nil, "192.0.2.1"},
		{"no address", direct, "@", nil, "invalid IP"},

		{"router", router, "127.0.0.1:1", []string{"198.51.100.1"}, "198.51.100.1"},
		{"router, invented entries", router, "127.0.0.1:1", []string{"6.6.6.6, 7.7.7.7 ,198.51.100.1"}, "198.51.100.1"},
		{"router, invented header", router, "127.0.0.1:1", []string{"6.6.6.6", "198.51.100.1"}, "198.51.100.1"},
		{"router, no header", router, "127.0.0.1:1", nil, "127.0.0.1"},
		{"router, no address", router, "127.0.0.1:1", []string{"198.51.100.1, unknown"}, "127.0.0.1"},
		{"router, port", router, "127.0.0.1:1", []string{"198.51.100.1:4711"}, "198.51.100.1"},
		{"router, IPv6 and port", router, "127.0.0.1:1", []string{"[2001:db8::1]:4711"}, "2001:db8::"},
		{"router, IPv6", router, "127.0.0.1:1", []string{"2001:db8:0:0:1::1"}, "2001:db8::"},

		{"balancer", balanced, "127.0.0.1:1", []string{"6.6.6.6, 198.51.100.1, 10.1.2.3"}, "198.51.100.1"},
		{"balancers", balanced, "127.0.0.1:1", []string{"198.51.100.1, 10.9.9.9", "::ffff:10.1.2.3"}, "198.51.100.1"},
		{"inside the balancer", balanced, "127.0.0.1:1", []string{"10.1.2.3"}, "10.1.2.3"},
		{"past the balancer", balanced, "127.0.0.1:1", []string{"6.6.6.6, 192.0.2.1"}, "192.0.2.1"},

		{"through a known proxy", behind, "10.0.0.1:1", []string{"6.6.6.6, 198.51.100.1"}, "198.51.100.1"},
		{"not through a known proxy", behind, "192.0.2.1:1", []string{"6.6.6.6"}, "192.0.2.1"},
	} {
		r := &http.Request{RemoteAddr: c.peer, Header: http.Header{"X-Forwarded-For": c.forwarded}}
		got, _ := c.proxies.source(r)
		assert.Equal(t, c.want, got.String(), "%s: %s", c.name, got)
	}
}

func TestSourceIsDisbelieved(t *testing.T) {
	t.Parallel()
	balanced := Proxies{Nearest: true, Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	for _, c := range []struct {
		name      string
		proxies   Proxies
		forwarded []string
		want      bool
	}{
		{"direct", Proxies{}, nil, false},
		{"unknown proxy", Proxies{}, []string{"198.51.100.1"}, true},
		{"router", Proxies{Nearest: true}, []string{"198.51.100.1"}, false},
		{"unknown balancer before the router", Proxies{Nearest: true}, []string{"198.51.100.1, 10.1.2.3"}, true},
		{"balancer", balanced, []string{"198.51.100.1, 10.1.2.3"}, false},
		{"no address", balanced, []string{"unknown, 10.1.2.3"}, false},
	} {
		r := &http.Request{RemoteAddr: "192.0.2.1:1234", Header: http.Header{"X-Forwarded-For": c.forwarded}}
		_, got := c.proxies.source(r)
		assert.Equal(t, c.want, got, c.name)
	}
}
