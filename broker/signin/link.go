package signin

import (
	"crypto/rand"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// linkTime is how long a link is valid.
const linkTime = 15 * time.Minute

// links makes and checks the links of `mysql-broker dev`. Each is valid once, and only in this process.
type links struct {
	print func(link string)

	mu     sync.Mutex
	unused map[string]time.Time // when tokens expire
	latest string               // token
}

func newLinks(print func(string)) *links {
	return &links{print: print, unused: map[string]time.Time{}}
}

// Link makes a link that signs in whoever opens it on this machine, once, within 15 minutes. It is for a SignIn with
// Announce alone.
func (s *SignIn) Link() string { return s.url(linkPath) + "?token=" + s.links.newToken() }

func (l *links) newToken() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(l.unused, func(_ string, until time.Time) bool { return now.After(until) })
	l.latest = rand.Text()
	l.unused[l.latest] = now.Add(linkTime)
	return l.latest
}

// use reports whether a token is valid, and was not used before.
func (l *links) use(token string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	until := l.unused[token]
	delete(l.unused, token)
	return time.Now().Before(until)
}

// open reports whether the latest link is valid.
func (l *links) open() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.unused[l.latest])
}

// announce prints a link, unless the latest one is still valid.
func (s *SignIn) announce() {
	if !s.links.open() {
		s.links.print(s.Link())
	}
}

// followLink signs in whoever opens a link.
func (s *SignIn) followLink(w http.ResponseWriter, r *http.Request) {
	if !s.links.use(r.URL.Query().Get("token")) {
		s.announce()
		s.show(w, r, page{Status: http.StatusForbidden, Title: "This link is not valid, or no longer.",
			Text: "Each works once, for 15 minutes. The broker has printed another one in its terminal."})
		return
	}
	if err := s.start(w, r, session{Subject: "dev", Name: "operator of this machine", Operator: true},
		maxSession); err != nil {
		s.Unavailable(w, r, err)
		return
	}
	redirect(w, Root)
}

// onThisMachine protects a dashboard with links. It refuses requests from other machines, and requests with another
// host name: a foreign page whose name resolves to this machine could otherwise read the responses.
// https://owasp.org/www-community/attacks/DNS_Rebinding
func (s *SignIn) onThisMachine(next http.HandlerFunc) http.HandlerFunc {
	if s.links == nil {
		return next
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if peer, err := netip.ParseAddrPort(r.RemoteAddr); err != nil || !peer.Addr().Unmap().IsLoopback() ||
			!loopback(r.Host) {
			http.Error(w, "This dashboard is for the machine that it runs on: open it as "+s.url(Root),
				http.StatusMisdirectedRequest)
			return
		}
		next(w, r)
	}
}

// loopback reports whether a Host header names the browser's own machine.
func loopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	address, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && address.IsLoopback()
}
