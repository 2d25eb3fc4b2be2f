package signin

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/oauth2"
)

// tokenMargin is subtracted from an access token's life, so that it does not expire on its way to Cloud Controller.
const tokenMargin = 10 * time.Second

// begin sends a person to the provider, who returns the browser to the wanted page.
func (s *SignIn) begin(w http.ResponseWriter, r *http.Request) {
	if !navigation(r) {
		http.Error(w, "Nobody is signed in, or the session has ended. Open the dashboard in a browser to sign in.",
			http.StatusUnauthorized)
		return
	}
	if s.links != nil {
		s.announce()
		s.show(w, r, page{Status: http.StatusUnauthorized, Title: "Nobody is signed in.",
			Text: "Open the link that the broker printed in its terminal, which works once."})
		return
	}
	e, err := s.provider.endpoints(r.Context())
	if err != nil {
		s.Unavailable(w, r, err)
		return
	}
	a := s.cookies.keep(w, r, r.URL.RequestURI())
	redirect(w, e.authURL(a))
}

// callback handles the browser's return from the provider. OpenID Connect Core 1.0, section 3.1.2.5.
func (s *SignIn) callback(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	a, ok := s.cookies.take(w, r, query.Get("state"))
	if !ok {
		s.show(w, r, page{Status: http.StatusBadRequest, Title: "This sign-in is over, or is not yours.",
			Text: "It was completed before, took longer than 10 minutes, or was begun in another browser; or this browser " +
				"keeps no cookies. Open the page that you wanted once more.", Link: Path, LinkText: "Who is signed in?"})
		return
	}
	retry := page{Status: http.StatusBadRequest, Title: "The sign-in failed.", Link: a.returnTo, LinkText: "Try again"}
	if code := query.Get("error"); code != "" {
		// The rest of the provider's message is in the URL, so anybody can forge it: only the log gets it.
		s.Logger.WarnContext(r.Context(), "the OpenID provider refused a sign-in", "error", clip(code),
			"reason", clip(query.Get("error_description")))
		retry.Text = "The provider refused it. If that happens again, the broker's operator finds the reason in its log."
		if code == "access_denied" {
			retry.Status, retry.Text = http.StatusForbidden, "You, or the provider, did not allow it."
		}
		s.show(w, r, retry)
		return
	}
	e, err := s.provider.endpoints(r.Context())
	if err != nil {
		s.Unavailable(w, r, err)
		return
	}
	id, err := s.provider.redeem(r.Context(), e, a, query.Get("code"))
	if err != nil {
		if away(err) {
			s.Unavailable(w, r, fmt.Errorf("redeem the code of a sign-in: %w", err))
			return
		}
		s.Logger.WarnContext(r.Context(), "a sign-in failed", "error", explain(err))
		retry.Text = "The provider's answer does not match it. If that happens again, the broker's operator finds the " +
			"reason in its log."
		s.show(w, r, retry)
		return
	}
	s.welcome(w, r, e, id, a.returnTo)
}

// welcome starts the session of the person that the provider named, unless there is nothing that they may see.
func (s *SignIn) welcome(w http.ResponseWriter, r *http.Request, e *endpoints, id identity, returnTo string) {
	made := session{Subject: id.subject, Name: id.name(id.subject), IDToken: id.idToken,
		Operator: s.OperatorGroup != "" && id.has(s.OperatorGroup)}
	lifetime := maxSession
	switch {
	case made.Operator:
	case s.permissions == nil:
		s.Logger.InfoContext(r.Context(), "refused a sign-in: the person is no operator", "user_id", id.subject)
		s.show(w, r, page{Status: http.StatusForbidden, Title: "You may not see this dashboard, " + made.Name + ".",
			Text: "It is for the broker's operators. Ask one of them to make you one, or sign out to sign in as somebody else.",
			Link: s.providerSignOut(e, id.idToken), LinkText: "Sign out"})
		return
	default:
		made.AccessToken = id.accessToken
		if !id.expires.IsZero() {
			lifetime = min(lifetime, time.Until(id.expires)-tokenMargin)
		}
	}
	if lifetime <= 0 {
		s.Unavailable(w, r, errors.New("the OpenID provider gives access tokens that end within 10 seconds"))
		return
	}
	if err := s.start(w, r, made, lifetime); err != nil {
		s.Unavailable(w, r, err)
		return
	}
	redirect(w, returnTo)
}

// away reports whether the provider did not respond, or said that it is unavailable.
func away(err error) bool {
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return refused.Response.StatusCode >= http.StatusInternalServerError
	}
	_, unreachable := errors.AsType[*url.Error](err)
	return unreachable || errors.Is(err, errNoKeys)
}

// explain returns an error for the log. It contains only the protocol's fields of a provider's response, because the
// rest could contain anything.
func explain(err error) string {
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return fmt.Sprintf("the provider answered %s: %s: %s", refused.Response.Status, clip(refused.ErrorCode),
			clip(refused.ErrorDescription))
	}
	return clip(err.Error())
}

// maxQuoted limits external text in the log, in bytes.
const maxQuoted = 500

func clip(text string) string { return text[:min(len(text), maxQuoted)] }

// redirect sends the browser to another URL. Unlike http.Redirect it does not change the path.
func redirect(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(http.StatusSeeOther)
}
