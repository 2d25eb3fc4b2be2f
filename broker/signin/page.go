package signin

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"html/template"
	"net/http"

	"mysql-broker/broker/dashboard/assets"
	"mysql-broker/visible"
)

// page says what happened, and what to do next.
type page struct {
	Status         int
	Title, Text    string
	Link, LinkText string // the next step; none if ""
	Follow         bool   // the browser follows the link by itself
	SignOut        bool   // with a button to sign out
}

//go:embed page.html
var pageHTML string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{"asset": assets.Path}).Parse(pageHTML))

// pagePolicy allows only the dashboard's style and icon.
const pagePolicy = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'"

func (s *SignIn) show(w http.ResponseWriter, r *http.Request, p page) {
	var body bytes.Buffer
	if err := pageTemplate.Execute(&body, p); err != nil {
		s.Logger.ErrorContext(r.Context(), "could not render a page of the sign-in", "error", err)
		http.Error(w, "The page cannot be shown.", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer, browsers would send forms without their origin
	h.Set("Cache-Control", "no-store")
	if p.Follow {
		h.Set("Refresh", "0; url="+p.Link)
	}
	w.WriteHeader(p.Status)
	visible.Writer(w).Write(body.Bytes()) // an error means that the browser is gone
}

// Unavailable responds that the broker cannot find out now who somebody is or what they may see, and logs the reason.
func (s *SignIn) Unavailable(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(r.Context().Err(), context.Canceled) {
		return // the client is gone
	}
	s.Logger.WarnContext(r.Context(), "a request to the dashboard could not be decided", "error", explain(err))
	w.Header().Set("Retry-After", "5")
	if !navigation(r) {
		http.Error(w, "The broker cannot check now who you are or what you may see. Try again.",
			http.StatusServiceUnavailable)
		return
	}
	s.show(w, r, page{Status: http.StatusServiceUnavailable, Title: "The dashboard is not available now.",
		Text: "The broker cannot check who you are, or what you may see. Try again in some seconds. If that does " +
			"not help, the broker's operator finds the reason in its log."})
}
