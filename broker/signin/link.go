package signin

import (
	"crypto/hmac"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// linkTime is how long a link is valid.
const linkTime = 15 * time.Minute

// Parts of a link's token, in bytes.
const (
	timeBytes  = 8  // its expiry, in Unix milliseconds
	nonceBytes = 16 // makes each token unique
	macBytes   = 32 // of the bytes before it
)

// links signs and checks the links of `mysql-broker dev`. Each is valid once, and only in this process.
type links struct {
	print func(link string)
	key   secret

	mu     sync.Mutex
	used   map[string]time.Time // tokens, until they expire
	latest string               // token
	until  time.Time            // expiry of latest
}

func newLinks(print func(string)) *links {
	return &links{print: print, key: newSecret(), used: map[string]time.Time{}}
}

// Link makes a link that signs in whoever opens it on this machine, once, within 15 minutes. It is for a SignIn with
// Announce alone.
func (s *SignIn) Link() string {
	return s.url(linkPath) + "?token=" + s.links.sign(time.Now().Add(linkTime))
}

func (l *links) sign(until time.Time) string {
	payload := binary.BigEndian.AppendUint64(nil, uint64(until.UnixMilli()))
	payload = append(payload, make([]byte, nonceBytes)...)
	rand.Read(payload[timeBytes:]) // never fails
	token := base64.RawURLEncoding.EncodeToString(append(payload, l.mac(payload)...))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.latest, l.until = token, until
	return token
}

func (l *links) mac(payload []byte) []byte { return l.key.derive("link " + string(payload)) }

// use reports whether a token is valid, and was not used before.
func (l *links) use(token string) bool {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) != timeBytes+nonceBytes+macBytes {
		return false
	}
	payload, mac := raw[:timeBytes+nonceBytes], raw[timeBytes+nonceBytes:]
	until := time.UnixMilli(int64(binary.BigEndian.Uint64(payload)))
	now := time.Now()
	if !hmac.Equal(mac, l.mac(payload)) || now.After(until) {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for old, until := range l.used {
		if now.After(until) {
			delete(l.used, old)
		}
	}
	if _, before := l.used[token]; before {
		return false
	}
	l.used[token] = until
	return true
}

func (l *links) open() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, used := l.used[l.latest]
	return !used && time.Now().Before(l.until)
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
