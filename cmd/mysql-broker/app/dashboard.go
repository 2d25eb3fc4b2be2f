package app

import (
	"context"
	"fmt"
	"net/url"

	"code.cloudfoundry.org/brokerapi/v13/domain"

	"mysql-broker/broker/dashboard"
	"mysql-broker/broker/signin"
)

// prepareSignIn creates the sign-in of the dashboard, if one is configured, and adds its UAA client to the catalog.
func (a *App) prepareSignIn(context.Context) (end ending, err error) {
	s := a.cfg.SignIn
	if s.Provider.ClientID == "" && s.Announce == nil {
		return end, nil
	}
	external := a.cfg.ExternalURL
	if external == nil {
		external = &url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", a.Port())}
	}
	a.external = external
	if s.InCatalog {
		// UAA redirects browsers only to these URLs, after a sign-in and after a sign-out. Cloud Controller passes the text
		// on unchanged, and UAA splits it at commas. UAA can be configured to refuse patterns.
		// https://github.com/cloudfoundry/uaa, in server/src/main: WhitelistLogoutSuccessHandler,
		// Jackson2ArrayOrStringDeserializer
		a.catalog = a.catalog.WithDashboardClient(domain.ServiceDashboardClient{ID: s.Provider.ClientID,
			Secret: s.Provider.ClientSecret, RedirectURI: external.JoinPath(signin.CallbackPath).String() + "," +
				external.JoinPath(signin.SignOutPath).String()})
	}
	a.signIn = signin.New(signin.Config{ExternalURL: external, Store: a.store, Logger: a.log, Provider: s.Provider,
		CloudController: s.CloudController, OperatorGroup: s.OperatorGroup, Announce: s.Announce})
	return end, nil
}

// SignIn is the sign-in of the dashboard, or nil.
func (a *App) SignIn() *signin.SignIn { return a.signIn }

// startDashboard creates the dashboard, unless there is no sign-in.
func (a *App) startDashboard(context.Context) (end ending, err error) {
	if a.signIn == nil {
		return end, nil
	}
	a.dashboard = dashboard.New(dashboard.Config{Store: a.store, SignIn: a.signIn, Plans: a.catalog.Plans(),
		Fleet: a.fleet, Provisioner: a.provisioner,
		AnswerTime: max(dashboard.DefaultAnswerTime, a.cfg.AnswerTime), Findings: a.examinations.findings, Logger: a.log})
	return ending{leave: a.dashboard.Close}, nil
}

// dashboardURL returns the URL of an instance's page, or "" if there is none.
func (a *App) dashboardURL(instanceID string) string {
	if a.dashboard == nil {
		return ""
	}
	return a.external.String() + dashboard.InstancePath(instanceID)
}
