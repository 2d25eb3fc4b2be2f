package config

import (
	"errors"
	"net/netip"
	"net/url"
)

// externalURL is where browsers find the broker: EXTERNAL_URL, else the application's first route on Cloud Foundry,
// whose router speaks HTTPS; nil if neither is known. It has a scheme and a host, and nothing else.
func (r *reader) externalURL(a Application) *url.URL {
	text := r.value("EXTERNAL_URL")
	if text == "" {
		return a.route()
	}
	u, err := url.Parse(text)
	if err == nil && u.Path == "/" {
		u.Path = ""
	}
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "":
		r.note(errors.New("EXTERNAL_URL is not a URL of scheme and host alone, such as https://mysql-broker.example.com"))
		return nil
	case !safe(u):
		r.note(errors.New("EXTERNAL_URL does not begin with https://, which only one on a loopback address may do"))
		return nil
	}
	return u
}

// route is the application's first route without a path, nil if it has none. The router would pass a path on, below
// which the broker does not answer.
func (a Application) route() *url.URL {
	for _, route := range a.URIs {
		if u, err := url.Parse("https://" + route); err == nil && u.Host != "" && u.Path == "" {
			return u
		}
	}
	return nil
}

// safe tells whether what is sent to u cannot be read or changed on the way.
func safe(u *url.URL) bool {
	switch u.Scheme {
	case "https":
		return u.Host != ""
	case "http":
		address, err := netip.ParseAddr(u.Hostname())
		return u.Hostname() == "localhost" || err == nil && address.IsLoopback()
	default:
		return false
	}
}
