package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"mysql-broker/broker/signin"
)

// SignIn says how people sign in to the dashboard. There is none where Provider has no ClientID and Announce is nil.
type SignIn struct {
	Provider        signin.Provider
	CloudController string // "" for none
	OperatorGroup   string
	// InCatalog has Cloud Controller make the client: the catalog shows it.
	InCatalog bool
	// Announce is told a link that signs in an operator, instead of all that: see signin.Config.
	Announce func(link string)
}

// Scopes asked for unless OIDC_SCOPES says which. Clients that Cloud Controller makes may ask for no others.
// https://docs.cloudfoundry.org/services/dashboard-sso.html#on-scopes
const (
	cloudFoundryScopes = "openid cloud_controller_service_permissions.read"
	otherScopes        = "openid profile"
)

// signIn reads who lets people into the dashboard at external, which is nil if it is not known.
func (r *reader) signIn(a Application, external *url.URL) SignIn {
	id, secret, made := r.client("DASHBOARD_CLIENT_ID", "DASHBOARD_CLIENT_SECRET")
	ownID, ownSecret, own := r.client("OIDC_CLIENT_ID", "OIDC_CLIENT_SECRET")
	switch {
	case !made && !own:
		return SignIn{}
	case made && own:
		r.note(errors.New("both DASHBOARD_CLIENT_ID and OIDC_CLIENT_ID are set: choose who makes the client"))
	case own:
		id, secret = ownID, ownSecret
	}
	s := SignIn{Provider: signin.Provider{Issuer: r.address("OIDC_ISSUER"), ClientID: id, ClientSecret: secret},
		CloudController: cmp.Or(r.address("CLOUD_CONTROLLER_URL"), a.CloudController), InCatalog: made,
		OperatorGroup: r.value("DASHBOARD_OPERATOR_GROUP")}
	s.CloudController = strings.TrimSuffix(s.CloudController, "/")
	scopes := otherScopes
	if s.CloudController != "" {
		scopes = cloudFoundryScopes
	}
	s.Provider.Scopes = strings.Fields(cmp.Or(r.value("OIDC_SCOPES"), scopes))
	if len(r.problems) > 0 { // what is missing may only be misspelt
		return s
	}
	if external == nil {
		r.note(errors.New("EXTERNAL_URL is not set: browsers have to find the dashboard"))
	}
	if s.CloudController == "" && s.Provider.Issuer == "" {
		r.note(errors.New("OIDC_ISSUER is not set, nor CLOUD_CONTROLLER_URL, which would name one"))
	}
	if s.CloudController == "" && s.OperatorGroup == "" {
		r.note(errors.New("nobody could see the dashboard: set CLOUD_CONTROLLER_URL or DASHBOARD_OPERATOR_GROUP"))
	}
	return s
}

// client reads a client's two variables, of which either both are set or none.
func (r *reader) client(idVariable, secretVariable string) (id, secret string, set bool) {
	id, secret = r.value(idVariable), r.value(secretVariable)
	if (id == "") != (secret == "") {
		r.note(fmt.Errorf("of %s and %s, one is set and the other is not", idVariable, secretVariable))
	}
	return id, secret, id != "" || secret != ""
}

// address reads a URL to ask something of, "" if it is not set. A slash at its end is kept: an issuer may have one.
func (r *reader) address(name string) string {
	text := r.value(name)
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil || !safe(u) || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		r.note(fmt.Errorf("%s is not a URL such as https://uaa.example.com; only one on a loopback address may begin with "+
			"http://", name))
		return ""
	}
	return text
}
