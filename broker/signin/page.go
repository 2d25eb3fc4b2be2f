package signin

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"html/template"
	"net/http"

	"mysql-broker/broker/dashboard/assets"
)

// page is one that says what happened, and what to do next.
type page struct {
	Status         int
	Title, Text    string
	Link, LinkText string // the next step, unless it is ""
	Follow         bool   // the browser follows the link by itself
	SignOut        bool   // with a button to sign out
}

//go:embed page.html
var pageHTML string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{"asset": assets.Path}).Parse(pageHTML))

// pagePolicy lets the page have the dashboard's style and icon, and nothing else.
const pagePolicy = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'"

func (s *SignIn) show(w http.ResponseWriter, r *http.Request, p page) {
	var body bytes.Buffer
	if err := pageTemplate.Execute(&body, p); err != nil {
		s.log.ErrorContext(r.Context(), "a page of the sign-in cannot be made", "error", err)
		http.Error(w, "The page cannot be shown.", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer, forms would be sent without their origin
	h.Set("Cache-Control", "no-store")
	if p.Follow {
		h.Set("Refresh", "0; url="+p.Link)
	}
	w.WriteHeader(p.Status)
	w.Write(body.Bytes()) // a browser that went away needs no answer
}

// Unavailable answers that it could not be found out now who somebody is, or what he may see, and logs why.
func (s *SignIn) Unavailable(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(r.Context().Err(), context.Canceled) {
		return // nobody waits for the answer
	}
	s.log.WarnContext(r.Context(), "a request to the dashboard could not be decided", "error", explain(err))
	w.Header().Set("Retry-After", "5")
	if !navigation(r) {
		http.Error(w, "It cannot be found out now who you are or what you may see. Try again.",
			http.StatusServiceUnavailable)
		return
	}
	s.show(w, r, page{Status: http.StatusServiceUnavailable, Title: "The dashboard is not available now.",
		Text: "It cannot be found out who you are, or what you may see. Try again in some seconds; if it stays so, the " +
			"broker's operator finds the reason in its log."})
}
