package signin

import (
	"net/http"
	"net/url"
	"strings"
)

// cookies says how the cookies of one dashboard are named and kept.
type cookies struct {
	prefix string
	secure bool
}

// cookiesFor names the cookies so that browsers take them from nobody but the broker itself, over HTTPS. On a loopback
// address, where there may be no HTTPS, and where cookies are not told apart by ports, the port is in the names.
// https://www.rfc-editor.org/rfc/rfc6265bis#section-4.1.3.2
func cookiesFor(external *url.URL) cookies {
	if external.Scheme == "https" {
		return cookies{prefix: "__Host-mysql-broker-", secure: true}
	}
	return cookies{prefix: "mysql-broker-" + external.Port() + "-"}
}

// set keeps a value at the browser for some seconds, or until it is closed if they are 0.
func (c cookies) set(w http.ResponseWriter, name, value string, seconds int) {
	// #nosec G124 -- without HTTPS, on loopback addresses, browsers would not keep a secure cookie
	http.SetCookie(w, &http.Cookie{Name: c.prefix + name, Value: value, Path: "/", MaxAge: seconds, HttpOnly: true,
		Secure: c.secure, SameSite: http.SameSiteLaxMode})
}

func (c cookies) clear(w http.ResponseWriter, name string) { c.set(w, name, "", -1) }

// get returns "" if the browser sent no such cookie.
func (c cookies) get(r *http.Request, name string) string {
	cookie, err := r.Cookie(c.prefix + name)
	if err != nil {
		return ""
	}
	return cookie.Value
}

// names are those that begin with mark of the cookies that the browser sent.
func (c cookies) names(r *http.Request, mark string) (names []string) {
	for _, cookie := range r.Cookies() {
		if name, ours := strings.CutPrefix(cookie.Name, c.prefix); ours && strings.HasPrefix(name, mark) {
			names = append(names, name)
		}
	}
	return names
}
