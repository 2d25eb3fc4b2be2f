package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"mysql-broker/broker/signin"
	"mysql-broker/outbound"
)

// SignIn says how people sign in to the dashboard. There is no dashboard if Provider has no ClientID and Announce is
// nil.
type SignIn struct {
	Provider        signin.Provider
	CloudController string // "" for none
	OperatorGroup   string
	// InCatalog puts the client into the catalog, so that Cloud Controller creates it.
	InCatalog bool
	// Announce gets a link that signs in an operator, and replaces everything above: see signin.Config.
	Announce func(link string)
}

// The default scopes. Clients that Cloud Controller creates cannot request any others.
// https://docs.cloudfoundry.org/services/dashboard-sso.html#on-scopes
const (
	cloudFoundryScopes = "openid cloud_controller_service_permissions.read"
	otherScopes        = "openid profile"
)

// signIn reads the configuration of the sign-in. external is the broker's URL, nil if not known.
func (r *reader) signIn(a Application, external *url.URL) SignIn {
	id, secret, made := r.client("DASHBOARD_CLIENT_ID", "DASHBOARD_CLIENT_SECRET")
	ownID, ownSecret, own := r.client("OIDC_CLIENT_ID", "OIDC_CLIENT_SECRET")
	switch {
	case !made && !own:
		return SignIn{}
	case made && own:
		r.fail(errors.New("both DASHBOARD_CLIENT_ID and OIDC_CLIENT_ID are set: choose who creates the client"))
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
	if len(r.problems) > 0 { // a missing variable may just be misspelt
		return s
	}
	if external == nil {
		r.fail(errors.New("EXTERNAL_URL is not set: browsers need it to find the dashboard"))
	}
	if s.CloudController == "" && s.Provider.Issuer == "" {
		r.fail(errors.New("OIDC_ISSUER is not set, and neither is CLOUD_CONTROLLER_URL, which would name one"))
	}
	if s.CloudController == "" && s.OperatorGroup == "" {
		r.fail(errors.New("nobody could see the dashboard: set CLOUD_CONTROLLER_URL or DASHBOARD_OPERATOR_GROUP"))
	}
	return s
}

// CloudController says how operators' commands use Cloud Controller.
type CloudController struct {
	URL            string // "" if it is not known
	Client, Secret string // of a client of UAA, "" for none
}

func (r *reader) cloudController() (c CloudController) {
	a, err := application(r.getenv("VCAP_APPLICATION"))
	r.fail(err)
	c.URL = strings.TrimSuffix(cmp.Or(r.address("CLOUD_CONTROLLER_URL"), a.CloudController), "/")
	c.Client, c.Secret, _ = r.client("CLOUD_CONTROLLER_CLIENT", "CLOUD_CONTROLLER_CLIENT_SECRET")
	return c
}

// client reads a client's two variables. Either both must be set, or neither.
func (r *reader) client(idVariable, secretVariable string) (id, secret string, set bool) {
	id, secret = r.value(idVariable), r.value(secretVariable)
	if (id == "") != (secret == "") {
		r.fail(fmt.Errorf("of %s and %s, one is set and the other is not", idVariable, secretVariable))
	}
	return id, secret, id != "" || secret != ""
}

// address reads the URL of a server, "" if it is not set. It keeps a trailing slash, which an issuer may have.
func (r *reader) address(name string) string {
	text := r.value(name)
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil || !outbound.Safe(u) || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		r.fail(fmt.Errorf("%s is not a URL such as https://uaa.example.com; only one on a loopback address may begin with "+
			"http://", name))
		return ""
	}
	return text
}
