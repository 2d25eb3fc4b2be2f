package signin

import (
	"errors"
	"net/http"
	"net/url"
)

// signOut ends the session, and then the provider's session if possible. The page opens the provider's URL by itself. A
// redirect would not work: the security policy of pages with the button forbids redirects of their forms.
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
		s.Logger.InfoContext(r.Context(), "signed out of the dashboard", "user_id", was.Subject)
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

// signedOut is the last page of a sign-out, to which the provider returns the browser. It signs nobody out. The
// browser's back button must not show earlier pages, which browsers keep in memory despite Cache-Control.
// https://www.w3.org/TR/clear-site-data/#grammardef-cache
func (s *SignIn) signedOut(w http.ResponseWriter, r *http.Request) {
	switch _, err := s.session(r); {
	case err == nil:
		s.show(w, r, page{Status: http.StatusOK, Title: "You are still signed in.", SignOut: true})
		return
	case !errors.Is(err, errNoSession):
		s.Unavailable(w, r, err)
		return
	}
	w.Header().Set("Clear-Site-Data", `"cache"`)
	s.show(w, r, page{Status: http.StatusOK, Title: "You are signed out.",
		Text: "Close the browser if others use it: the provider may still know you.", Link: Path,
		LinkText: "Sign in again"})
}

// providerSignOut is the URL that ends the provider's session, or the URL of the page that says that it may continue.
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
