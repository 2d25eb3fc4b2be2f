package app

import (
	"fmt"
	"net/url"

	"code.cloudfoundry.org/brokerapi/v13/domain"

	"mysql-broker/broker/catalog"
	"mysql-broker/broker/dashboard"
	"mysql-broker/broker/signin"
	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/provisioner/plan"
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
	a.external = external
	if s.InCatalog {
		// UAA sends browsers back to no other addresses than these, neither after a sign-in nor after a sign-out. Cloud
		// Controller hands the text on as it is, and UAA takes it for a list where there is a comma. Of patterns, it may
		// be told to take none. https://github.com/cloudfoundry/uaa, in server/src/main: WhitelistLogoutSuccessHandler,
		// Jackson2ArrayOrStringDeserializer
		c = c.WithDashboardClient(domain.ServiceDashboardClient{ID: s.Provider.ClientID, Secret: s.Provider.ClientSecret,
			RedirectURI: external.JoinPath(signin.CallbackPath).String() + "," + external.JoinPath(signin.SignOutPath).String()})
	}
	return signin.New(signin.Config{ExternalURL: external, Store: a.store, Logger: a.log, Provider: s.Provider,
		CloudController: s.CloudController, OperatorGroup: s.OperatorGroup, Announce: s.Announce}), c
}

// SignIn is who lets people into the dashboard, or nil.
func (a *App) SignIn() *signin.SignIn { return a.signIn }

// startDashboard makes the pages, unless nobody could sign in to see them.
func (a *App) startDashboard(plans plan.Set) {
	if a.signIn != nil {
		a.dashboard = dashboard.New(dashboard.Config{Store: a.store, SignIn: a.signIn, Plans: plans, Shared: a.shared,
			Inspect: a.provisioner.Inspect, Storage: a.provisioner.Storage, Findings: a.examiner.findings, Logger: a.log})
	}
}

// dashboardURL tells the address of an instance's page, "" where there is none.
func (a *App) dashboardURL(instanceID string) string {
	if a.dashboard == nil {
		return ""
	}
	return a.external.String() + dashboard.InstancePath(instanceID)
}
