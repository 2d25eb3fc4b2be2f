package app

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"code.cloudfoundry.org/brokerapi/v13/domain"

	"mysql-broker/broker/catalog"
	"mysql-broker/broker/signin"
	"mysql-broker/cmd/mysql-broker/config"
)

// newSignIn returns who lets people into the dashboard, nil if nobody is configured to, and the catalog with the client
// that this needs at UAA.
func (a *App) newSignIn(cfg config.Config, c *catalog.Catalog) (*signin.SignIn, *catalog.Catalog) {
	s := cfg.SignIn
	if s.Provider.ClientID == "" && s.Announce == nil {
		return nil, c
	}
	external := cfg.ExternalURL
	if external == nil {
		external = &url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", a.Port())}
	}
	if s.InCatalog {
		c = c.WithDashboardClient(domain.ServiceDashboardClient{ID: s.Provider.ClientID, Secret: s.Provider.ClientSecret,
			RedirectURI: external.JoinPath(signin.CallbackPath).String()})
	}
	return signin.New(signin.Config{ExternalURL: external, Store: a.store, Logger: a.log, Provider: s.Provider,
		CloudController: s.CloudController, OperatorGroup: s.OperatorGroup, Announce: s.Announce}), c
}

// SignIn is who lets people into the dashboard, or nil.
func (a *App) SignIn() *signin.SignIn { return a.signIn }

// withDashboard serves the dashboard's sign-in beside the API.
func withDashboard(api http.Handler, signIn *signin.SignIn) http.Handler {
	people := signIn.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, signin.Path) {
			people.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}
