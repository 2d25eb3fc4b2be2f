package signin

import (
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"strings"
)

const (
	attemptMark    = "attempt-" // begins the names of their cookies
	attemptSeconds = 10 * 60    // for passwords that have to be looked up first
	// attemptsKept is how many sign-ins a browser may have under way, lest their cookies fill its requests.
	attemptsKept = 8
	maxReturn    = 1000 // bytes of an address to return to
)

// attempt is a sign-in under way: a cookie of its own, so that tabs do not get in each other's way. Whatever the
// provider has to give back, or the broker must prove, is derived from its secret: a callback that anybody else caused
// has another state or no cookie, and a code or an ID token that was made for anybody else does not fit.
type attempt struct {
	secret   secret
	returnTo string // a path of the dashboard, and its query
}

// state is what the provider sends back with the browser.
func (a attempt) state() string { return a.secret.text("state") }

// nonce is what the provider puts into the ID token.
func (a attempt) nonce() string { return a.secret.text("nonce") }

// verifier is what the provider wants to see with the code. RFC 7636, section 4.1: 43 characters are enough.
func (a attempt) verifier() string { return a.secret.text("code verifier") }

// attemptCookie is the name of the cookie of the attempt with this state, whoever sent that.
func attemptCookie(state string) string { return attemptMark + state[:min(len(state), 12)] }

// keep gives the browser a new attempt that returns to an address.
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

// take finds the attempt that a state belongs to, once.
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

// returnable tells whether an address is one of the dashboard's, whatever a browser makes of it: it begins with one
// slash and a name, so that it has no host.
func returnable(address string) bool {
	return strings.HasPrefix(address, Root) && len(address) <= maxReturn &&
		!strings.ContainsFunc(address, func(c rune) bool { return c <= ' ' || c >= 0x7f })
}
