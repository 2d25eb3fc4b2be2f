package signin

import (
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"strings"
)

const (
	attemptMark    = "attempt-" // prefix of the cookies' names
	attemptSeconds = 10 * 60    // enough to look up a password
	// attemptsKept limits the pending sign-ins of a browser, because each adds a cookie to its requests.
	attemptsKept = 8
	maxReturn    = 1000 // bytes of the address to return to
)

// attempt is a pending sign-in. Each has its own cookie, so that tabs do not interfere. The values that the provider
// returns, and those that the broker must prove, are derived from its secret. A callback that somebody else has caused
// has another state or no cookie, and a code or ID token for somebody else does not match.
type attempt struct {
	secret   secret
	returnTo string // a path of the dashboard, and its query
}

// state is the value that the provider returns with the browser.
func (a attempt) state() string { return a.secret.text("state") }

// nonce is the value that the provider puts into the ID token.
func (a attempt) nonce() string { return a.secret.text("nonce") }

// verifier is the value that the provider requires with the code. RFC 7636, section 4.1: 43 characters are enough.
func (a attempt) verifier() string { return a.secret.text("code verifier") }

// attemptCookie is the name of the cookie for a state, which may be forged.
func attemptCookie(state string) string { return attemptMark + state[:min(len(state), 12)] }

// keep creates an attempt that will return to an address, and sends its cookie to the browser.
func (c cookies) keep(w http.ResponseWriter, r *http.Request, returnTo string) attempt {
	if !returnable(returnTo) {
		returnTo = Path
	}
	if others := c.names(r, attemptMark); len(others) >= attemptsKept {
		for _, name := range others {
			c.clear(w, name)
		}
	}
	a := attempt{secret: newSecret(), returnTo: returnTo}
	c.set(w, attemptCookie(a.state()), a.secret.String()+"."+base64.RawURLEncoding.EncodeToString([]byte(returnTo)),
		attemptSeconds)
	return a
}

// take returns the attempt of a state, and deletes its cookie.
func (c cookies) take(w http.ResponseWriter, r *http.Request, state string) (a attempt, ok bool) {
	name := attemptCookie(state)
	key, returnTo, _ := strings.Cut(c.get(r, name), ".")
	if a.secret, ok = parseSecret(key); !ok || subtle.ConstantTimeCompare([]byte(a.state()), []byte(state)) != 1 {
		return a, false
	}
	c.clear(w, name)
	raw, err := base64.RawURLEncoding.DecodeString(returnTo)
	if a.returnTo = string(raw); err != nil || !returnable(a.returnTo) {
		a.returnTo = Path
	}
	return a, true
}

// returnable reports whether every browser reads an address as one of the dashboard's: it begins with one slash and a
// name, so it has no host.
func returnable(address string) bool {
	return strings.HasPrefix(address, Root) && len(address) <= maxReturn &&
		!strings.ContainsFunc(address, func(c rune) bool { return c <= ' ' || c >= 0x7f })
}
