package signin

import (
	"errors"
	"net/http"
	"net/url"
)

// signOut ends the session, and then the one at the provider if that can be. The page goes there by itself: a redirect
// would be one that the policies of pages with the button forbid, as it is an answer to their form.
// https://www.w3.org/TR/CSP3/#directive-form-action
func (s *SignIn) signOut(w http.ResponseWriter, r *http.Request) {
	was, err := s.session(r)
	if err == nil {
		err = s.end(r)
	}
	if err != nil && !errors.Is(err, errNoSession) {
		s.Unavailable(w, r, err)
		return
	}
	s.cookies.clear(w, sessionCookie)
	if err == nil {
		s.log.InfoContext(r.Context(), "signed out of the dashboard", "user_id", was.Subject)
	}
	to := SignOutPath
	if s.provider != nil && was.IDToken != "" {
		if e, err := s.provider.endpoints(r.Context()); err == nil {
			to = s.providerSignOut(e, was.IDToken)
		}
	}
	s.show(w, r, page{Status: http.StatusOK, Title: "You are signed out of the dashboard.", Link: to, LinkText: "Go on",
		Follow: true})
}

// signedOut is what a person sees at last who has signed out: the provider sends the browser back to it. Going back
// from there must not show what was seen before, which browsers keep whatever Cache-Control says, from when it is left.
// https://www.w3.org/TR/clear-site-data/#grammardef-cache
func (s *SignIn) signedOut(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Clear-Site-Data", `"cache"`)
	s.show(w, r, page{Status: http.StatusOK, Title: "You are signed out.",
		Text: "Close the browser if others use it: the provider may still know you.", Link: Path,
		LinkText: "Sign in again"})
}

// providerSignOut is the address that ends the provider's own session, or of the page that says that it may go on.
// https://openid.net/specs/openid-connect-rpinitiated-1_0.html#RPLogout
func (s *SignIn) providerSignOut(e *endpoints, idToken string) string {
	u, err := url.Parse(e.endSession)
	if err != nil || e.endSession == "" {
		return SignOutPath
	}
	query := u.Query()
	query.Set("id_token_hint", idToken)
	query.Set("client_id", e.oauth.ClientID)
	query.Set("post_logout_redirect_uri", s.url(SignOutPath))
	u.RawQuery = query.Encode()
	return u.String()
}
