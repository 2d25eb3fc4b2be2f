// Package signin lets developers and operators into the dashboard: by OpenID Connect, with what Cloud Controller says
// that a developer may see, or in `mysql-broker dev` by a signed link.
//
// Who is signed in has a session: a row in PostgreSQL, which every replica can read, however large the provider's
// tokens are, and which a sign-out deletes everywhere at once. The row is encrypted with a key that only the session's
// cookie has, so that neither PostgreSQL nor a backup of it gives anybody's token away, and rotating the broker's keys
// ends no session. A sign-in that is under way is kept by the browser alone: see attempt.
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

// Paths below which the dashboard, and of it the sign-in, are found.
const (
	Root = "/dashboard/"
	Path = Root + "sign-in/"

	CallbackPath = Path + "callback" // the provider sends browsers there
	SignOutPath  = Path + "out"      // pages POST there to sign out; no token is needed in the form
	linkPath     = Path + "link"
)

// maxSession is how long a session lasts at most. A developer's ends with the access token, if that is sooner: the next
// page begins a sign-in then, which the provider lets pass without a question while it knows the browser.
const maxSession = 8 * time.Hour

// Config is what New needs.
type Config struct {
	// ExternalURL is where browsers find the broker: a scheme, which is https unless the host is a loopback address, and
	// a host.
	ExternalURL *url.URL
	Store       *store.Store
	Logger      *slog.Logger

	// Provider is who tells who somebody is. Not used where there is Announce.
	Provider Provider
	// CloudController is the URL of the one that is asked what a developer may see; "" lets in only operators.
	CloudController string
	// OperatorGroup is the scope, group or role that makes an operator; "" makes nobody one.
	OperatorGroup string

	// Announce is told a link whenever one is needed, if it is not nil: whoever opens that, on this machine, is an
	// operator, and nobody else gets in.
	Announce func(link string)
}

// SignIn guards the dashboard. It is safe for concurrent use.
type SignIn struct {
	log         *slog.Logger
	store       *store.Store
	external    *url.URL
	cookies     cookies
	provider    *provider // nil where there are links
	links       *links    // nil where there is a provider
	permissions *permissions
	group       string // of operators, "" if there is none
	crossOrigin *http.CrossOriginProtection
}

// New returns a SignIn. It asks nobody anything yet: the provider may start later than the broker.
func New(cfg Config) *SignIn {
	s := &SignIn{log: cfg.Logger, store: cfg.Store, external: cfg.ExternalURL, cookies: cookiesFor(cfg.ExternalURL),
		group: cfg.OperatorGroup, crossOrigin: http.NewCrossOriginProtection()}
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

// Viewer is who is signed in.
type Viewer struct {
	Name     string // as the provider shows it, never empty
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

// FromContext tells who sent a request that Protect let through.
func FromContext(ctx context.Context) (Viewer, bool) {
	session, ok := ctx.Value(sessionKey{}).(session)
	return Viewer{Name: session.Name, Operator: session.Operator}, ok
}

// Protect lets a request through to next only if somebody is signed in, whom next finds with FromContext. The request's
// context ends with the session. Else it begins the sign-in, or answers 401 what no person looks at, such as a stream
// of events.
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

// Access tells what the viewer of a request that Protect let through may see of an instance. Operators may manage all.
// An error says that this could not be found out: answer with Unavailable.
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

// Handler answers everything below Path: the provider's callback, sign-out, the link of `mysql-broker dev`, and who is
// signed in.
func (s *SignIn) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET "+Path+"{$}", s.Protect(http.HandlerFunc(s.showViewer)))
	mux.HandleFunc("GET "+SignOutPath, s.signedOut)
	mux.Handle("POST "+SignOutPath, s.crossOrigin.Handler(s.onThisMachine(s.signOut)))
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

// url is the address of a path as browsers see it.
func (s *SignIn) url(path string) string {
	u := *s.external
	u.Path = path
	return u.String()
}

// navigation tells whether a person waits for a page, rather than a script for data.
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
