package signin

import (
	"net/http"
	"net/url"
	"strings"
)

// cookies has the names and attributes of the cookies of a dashboard.
type cookies struct {
	prefix string
	secure bool
}

// cookiesFor chooses names for which browsers accept cookies only from the broker itself, over HTTPS. A loopback
// address may have no HTTPS. There the names contain the port, because browsers share cookies between ports.
// https://www.rfc-editor.org/rfc/rfc6265bis#section-4.1.3.2
func cookiesFor(external *url.URL) cookies {
	if external.Scheme == "https" {
		return cookies{prefix: "__Host-mysql-broker-", secure: true}
	}
	return cookies{prefix: "mysql-broker-" + external.Port() + "-"}
}

// set stores a value in the browser for some seconds, or until the browser closes if they are 0.
func (c cookies) set(w http.ResponseWriter, name, value string, seconds int) {
	// #nosec G124 -- without HTTPS, on loopback addresses, browsers would not store a secure cookie
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

// names returns the names of the browser's cookies that begin with mark.
func (c cookies) names(r *http.Request, mark string) (names []string) {
	for _, cookie := range r.Cookies() {
		if name, ours := strings.CutPrefix(cookie.Name, c.prefix); ours && strings.HasPrefix(name, mark) {
			names = append(names, name)
		}
	}
	return names
}
