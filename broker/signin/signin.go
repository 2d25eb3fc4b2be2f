// Package signin lets developers and operators into the dashboard: by OpenID Connect, with what Cloud Controller says
// that a developer may see, or in `mysql-broker dev` by a signed link.
package signin

import (
	"context"
	"errors"
	"net/http"
)

// SignIn guards the dashboard.
type SignIn struct{}

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

var errNotConfigured = errors.New("nobody can sign in: there is no OpenID provider")

type viewerKey struct{}

// FromContext tells who sent a request that Protect let through.
func FromContext(ctx context.Context) (Viewer, bool) {
	v, ok := ctx.Value(viewerKey{}).(Viewer)
	return v, ok
}

// Protect lets a request through to next only if somebody is signed in, whom next finds with FromContext. Else it
// begins the sign-in, or answers 401 what no person looks at, such as a stream of events.
func (s *SignIn) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, errNotConfigured.Error(), http.StatusServiceUnavailable)
	})
}

// Access tells what the viewer of a request that Protect let through may see of an instance. Operators may manage all.
func (s *SignIn) Access(r *http.Request, instanceID string) (Access, error) {
	return None, errNotConfigured
}

// Handler answers /dashboard/sign-in/…: the provider's callback, sign-out, the link of `mysql-broker dev`.
func (s *SignIn) Handler() http.Handler {
	return s.Protect(http.NotFoundHandler())
}
