// Package signin signs developers and operators in to the dashboard with OpenID Connect. Cloud Controller says what a
// developer may see. In `mysql-broker dev`, a link signs in instead.
//
// A signed-in person has a session: a row in PostgreSQL, which can hold tokens of any size, which every replica can
// read, and which a sign-out deletes everywhere at once. The row is encrypted with a key that only the session's cookie
// contains. So neither PostgreSQL nor its backups reveal tokens, and rotating the broker's keys ends no session. Only
// the browser stores a pending sign-in: see attempt.
package signin

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"mysql-broker/store"
)

// Paths of the dashboard and of its sign-in.
const (
	Root = "/dashboard/"
	Path = Root + "sign-in/"

	CallbackPath = Path + "callback" // the provider sends browsers there
	SignOutPath  = Path + "out"      // pages POST there to sign out; the form needs no token
	linkPath     = Path + "link"
)

// maxSession limits the length of a session. A developer's session also ends with the access token. The next page then
// starts a sign-in, which needs no input while the provider still has a session.
const maxSession = 8 * time.Hour

// Config is what New needs.
type Config struct {
	// ExternalURL is the broker's URL for browsers: a scheme, which is https unless the host is a loopback address, and a
	// host.
	ExternalURL *url.URL
	Store       *store.Store
	Logger      *slog.Logger

	// Provider authenticates people. It is not used if Announce is set.
	Provider Provider
	// CloudController is the URL of the Cloud Controller that says what a developer may see; with "", only operators can
	// sign in.
	CloudController string
	// OperatorGroup is the scope, group or role of operators; with "", nobody is one.
	OperatorGroup string

	// Announce, if not nil, gets a link whenever one is needed. Whoever opens the link on this machine is an operator;
	// nobody else can sign in.
	Announce func(link string)
}

// SignIn guards the dashboard. It is safe for concurrent use.
type SignIn struct {
	Config
	cookies     cookies
	provider    *provider // nil if there are links
	links       *links    // nil if there is a provider
	permissions *permissions
}

// New returns a SignIn. It sends no requests yet, because the provider may start later than the broker.
func New(cfg Config) *SignIn {
	s := &SignIn{Config: cfg, cookies: cookiesFor(cfg.ExternalURL)}
	if cfg.CloudController != "" {
		s.permissions = newPermissions(cfg.CloudController)
	}
	if cfg.Announce != nil {
		s.links = newLinks(cfg.Announce)
	} else {
		s.provider = newProvider(cfg.Provider, cfg.CloudController, s.url(CallbackPath))
	}
	return s
}

// Viewer is a signed-in person.
type Viewer struct {
	ID       string // the provider's, of the person
	Name     string // the provider's display name, never empty
	Operator bool
}

// Access is what a viewer may see of an instance.
type Access int

const (
	None   Access = iota
	Read          // its state
	Manage        // everything
)

type sessionKey struct{}

// FromContext returns the sender of a request that Protect has accepted.
func FromContext(ctx context.Context) (Viewer, bool) {
	session, ok := ctx.Value(sessionKey{}).(session)
	return Viewer{session.Subject, session.Name, session.Operator}, ok
}

// Protect calls next only if somebody is signed in; FromContext returns who. The request's context ends with the
// session. Otherwise Protect starts the sign-in, or responds with 401 to requests that no person sees, such as event
// streams.
func (s *SignIn) Protect(next http.Handler) http.Handler {
	return s.onThisMachine(func(w http.ResponseWriter, r *http.Request) {
		session, err := s.session(r)
		switch {
		case errors.Is(err, errNoSession):
			s.begin(w, r)
		case err != nil:
			s.Unavailable(w, r, err)
		default:
			w.Header().Set("Cache-Control", "no-store") // the next person at this browser must not go back to it
			ctx, cancel := context.WithTimeout(context.WithValue(r.Context(), sessionKey{}, session), session.left)
			defer cancel()
			next.ServeHTTP(w, r.WithContext(ctx))
		}
	})
}

// Access returns what the viewer may see of an instance, for a request that Protect has accepted. Operators can manage
// all instances. An error means that this is unknown: respond with Unavailable.
func (s *SignIn) Access(r *http.Request, instanceID string) (Access, error) {
	session, ok := r.Context().Value(sessionKey{}).(session)
	switch {
	case !ok:
		return None, errors.New("nobody is signed in")
	case session.Operator:
		return Manage, nil
	case s.permissions == nil:
		return None, nil
	}
	return s.permissions.of(r.Context(), session, instanceID)
}

// Handler serves everything below Path: the provider's callback, sign-out, the link of `mysql-broker dev`, and the page
// that shows who is signed in.
func (s *SignIn) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET "+Path+"{$}", s.Protect(http.HandlerFunc(s.showViewer)))
	mux.HandleFunc("GET "+SignOutPath, s.signedOut)
	mux.Handle("POST "+SignOutPath, http.NewCrossOriginProtection().Handler(s.onThisMachine(s.signOut)))
	if s.links != nil {
		mux.Handle("GET "+linkPath, s.onThisMachine(s.followLink))
	} else {
		mux.HandleFunc("GET "+CallbackPath, s.callback)
	}
	return mux
}

func (s *SignIn) showViewer(w http.ResponseWriter, r *http.Request) {
	v, _ := FromContext(r.Context())
	p := page{Status: http.StatusOK, Title: "You are signed in as " + v.Name + ".", SignOut: true,
		Text: "The address of a service instance's page is shown by: cf service NAME"}
	if v.Operator {
		p.Text, p.Link, p.LinkText = "As an operator you see all service instances.", Root, "All instances"
	}
	s.show(w, r, p)
}

func (s *SignIn) url(path string) string {
	u := *s.ExternalURL
	u.Path = path
	return u.String()
}

// navigation reports whether a person waits for a page, and not a script for data.
// https://www.w3.org/TR/fetch-metadata/#sec-fetch-mode-header
func navigation(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	if mode := r.Header.Get("Sec-Fetch-Mode"); mode != "" {
		return mode == "navigate"
	}
	return strings.Contains(r.Header.Get("Accept"), "text/html")
}
