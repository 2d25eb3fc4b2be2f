package dashboard

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"mysql-broker/broker/dashboard/assets"
	"mysql-broker/broker/signin"
)

// Serves reports whether a path belongs to the dashboard.
func Serves(path string) bool { return path == "/dashboard" || strings.HasPrefix(path, "/dashboard/") }

func (d *Dashboard) routes() http.Handler {
	pages := http.NewServeMux()
	pages.HandleFunc("GET /dashboard/{$}", d.operators(d.overview))
	pages.HandleFunc("GET /dashboard/instances/{id}", d.instance)
	pages.HandleFunc("GET /dashboard/instances/{id}/events", d.events)
	pages.HandleFunc("GET /dashboard/", func(w http.ResponseWriter, r *http.Request) {
		d.refuse(w, r, http.StatusNotFound, noPage)
	})

	all := http.NewServeMux()
	all.HandleFunc("GET "+assets.Root+"{version}/{file}", assets.Serve)
	all.Handle("/dashboard/sign-in/", d.SignIn.Handler())
	all.Handle("/dashboard/", d.SignIn.Protect(d.readable(pages)))
	return secured(all)
}

// readable refuses a URL with characters that PostgreSQL does not accept in text.
func (d *Dashboard) readable(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query, err := url.ParseQuery(r.URL.RawQuery)
		texts := append(slices.Concat(slices.Collect(maps.Values(query))...), r.URL.Path)
		if err != nil || slices.ContainsFunc(texts, func(s string) bool {
			return !utf8.ValidString(s) || strings.ContainsRune(s, 0)
		}) {
			d.refuse(w, r, http.StatusBadRequest, noAddress)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (d *Dashboard) operators(page http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if v, _ := signin.FromContext(r.Context()); !v.Operator {
			d.refuse(w, r, http.StatusForbidden, forOperators)
			return
		}
		page(w, r)
	}
}

// policy lets a page load only the dashboard's own styles, script and events. Injected inline code does not run.
// https://www.w3.org/TR/CSP3/
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// secured sets security headers on every response. Handlers can set other values.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Content-Security-Policy":      policy,
			"X-Content-Type-Options":       "nosniff",
			"X-Frame-Options":              "DENY", // frame-ancestors, for older browsers
			"Referrer-Policy":              "same-origin",
			"Cross-Origin-Opener-Policy":   "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin",
			"Cache-Control":                "no-store",
		} {
			w.Header().Set(name, value)
		}
		next.ServeHTTP(w, r)
	})
}
