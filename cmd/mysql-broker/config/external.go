package config

import (
	"errors"
	"net/url"

	"mysql-broker/outbound"
)

// externalURL is the broker's URL for browsers: EXTERNAL_URL, or the application's first route on Cloud Foundry, whose
// router serves HTTPS; nil if neither is known. It has only a scheme and a host.
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
		r.fail(errors.New("EXTERNAL_URL is not a URL of scheme and host alone, such as https://mysql-broker.example.com"))
		return nil
	case !outbound.Safe(u):
		r.fail(errors.New("EXTERNAL_URL does not begin with https://, which only one on a loopback address may do"))
		return nil
	}
	return u
}

// route is the application's first route without a path, nil if it has none. The router passes paths on, and the broker
// serves nothing below a route's path.
func (a Application) route() *url.URL {
	for _, route := range a.URIs {
		if u, err := url.Parse("https://" + route); err == nil && u.Host != "" && u.Path == "" {
			return u
		}
	}
	return nil
}
