package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"mysql-broker/provisioner/launcher/launchers"
)

// Application is the broker's own VCAP_APPLICATION; zero outside Cloud Foundry.
type Application struct {
	Name            string   `json:"application_name"`
	Index           int      `json:"instance_index"`
	URIs            []string `json:"application_uris"` // host names, perhaps with a path
	CloudController string   `json:"cf_api"`
}

func application(text string) (a Application, err error) {
	if text == "" {
		return a, nil
	}
	if json.Unmarshal([]byte(text), &a) != nil {
		return a, errors.New("VCAP_APPLICATION is not a JSON object")
	}
	return a, nil
}

// service is one binding in VCAP_SERVICES.
type service struct {
	Name        string          `json:"name"`
	Tags        []string        `json:"tags"`
	Credentials json.RawMessage `json:"credentials"`
	offering    string
}

type services []service

func boundServices(text string) (services, error) {
	if text == "" {
		return nil, nil
	}
	var byOffering map[string][]service
	if json.Unmarshal([]byte(text), &byOffering) != nil { // the error could quote a credential
		return nil, errors.New("VCAP_SERVICES is not a JSON object of arrays of services")
	}
	var all services
	for offering, bound := range byOffering {
		for _, s := range bound {
			s.offering = offering
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b service) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// postgresURL returns the URL of the service with that name, or of the first one tagged as PostgreSQL.
func (all services) postgresURL(name string) string {
	i := slices.IndexFunc(all, func(s service) bool { return s.Name == name })
	if i < 0 {
		i = slices.IndexFunc(all, func(s service) bool { return s.tagged("postgresql") || s.tagged("postgres") })
	}
	if i < 0 {
		return ""
	}
	var credentials struct {
		URI           string `json:"uri"`
		URL           string `json:"url"`
		CACertificate string `json:"ca_certificate"` // as PEM
		SSLRootCert   string `json:"sslrootcert"`    // the same
	}
	if json.Unmarshal(all[i].Credentials, &credentials) != nil {
		return ""
	}
	return withCA(cmp.Or(credentials.URI, credentials.URL),
		cmp.Or(credentials.CACertificate, credentials.SSLRootCert))
}

// withCA verifies connections with a CA, unless the URL has its own sslmode.
func withCA(text, pem string) string {
	u, err := url.Parse(text)
	if err != nil || pem == "" || u.Query().Has("sslrootcert") {
		return text
	}
	query := u.Query()
	query.Set("sslrootcert", pem)
	if !query.Has("sslmode") {
		query.Set("sslmode", "verify-full")
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// serverMark is the tag or name prefix of user-provided services that describe a shared server.
const serverMark = "mysql-server"

// mysqlServers returns the shared servers in user-provided services. A server has its service's name, unless its
// credentials name it.
func (all services) mysqlServers() (found []server, problems error) {
	for _, s := range all.userProvided() {
		if !s.marked(serverMark) {
			continue
		}
		var described server
		if json.Unmarshal(s.Credentials, &described) != nil { // the error could quote a password
			problems = errors.Join(problems, fmt.Errorf("service %q: its credentials are not uri, ca_certificate, host "+
				"and name as strings, port and max_databases as numbers, exclusive as true or false", s.Name))
			continue
		}
		described.Name = cmp.Or(described.Name, s.Name)
		found = append(found, described)
	}
	return found, problems
}

// launcherMark is the name of a user-provided service whose credentials are variables of the only launcher. If there
// are several, the name of the launcher comes after it.
const launcherMark = "mysql-broker-kubernetes"

// launcherVariables returns the variables of launchers in user-provided services: LAUNCHER_API_TOKEN for the key
// "api_token", or LAUNCHER_ZONE_1_API_TOKEN if the service is that of the launcher "zone-1".
func (all services) launcherVariables() (found map[string]string, problems error) {
	known := map[string]bool{}
	for _, v := range launchers.Variables() {
		known[v.Name] = true
	}
	found = map[string]string{}
	for _, s := range all.userProvided() {
		rest, marked := strings.CutPrefix(s.Name, launcherMark)
		if !marked || rest != "" && rest[0] != '-' {
			continue
		}
		var credentials map[string]string
		if json.Unmarshal(s.Credentials, &credentials) != nil { // the error could quote the token
			problems = errors.Join(problems, fmt.Errorf("service %q: its credentials are not an object of strings", s.Name))
			continue
		}
		owner := strings.ToUpper(strings.ReplaceAll(rest, "-", "_"))
		for key, value := range credentials {
			variable := "_" + strings.ToUpper(key)
			if !known["LAUNCHER"+variable] {
				problems = errors.Join(problems, fmt.Errorf("service %q: its credentials have the key %q, and there is no "+
					"variable LAUNCHER%s", s.Name, key, variable))
				continue
			}
			found["LAUNCHER"+owner+variable] = value
		}
	}
	return found, problems
}

// only reads the credentials of the one service with a mark; nil if there is none. what says what the service is for,
// and form what its credentials have to be.
func only[T any](all services, mark, what, form string) (found *T, err error) {
	for _, s := range all {
		if !s.marked(mark) {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("service %q: it is the second one for %s, and there can be one", s.Name, what)
		}
		found = new(T)
		if json.Unmarshal(s.Credentials, found) != nil { // the error could quote a secret
			return nil, fmt.Errorf("service %q: its credentials are not %s", s.Name, form)
		}
	}
	return found, nil
}

func (all services) userProvided() services {
	return slices.DeleteFunc(slices.Clone(all), func(s service) bool { return s.offering != "user-provided" })
}

// marked reports whether the service has a tag, or a name that begins with it.
func (s service) marked(mark string) bool { return s.tagged(mark) || strings.HasPrefix(s.Name, mark) }

func (s service) tagged(tag string) bool {
	return slices.ContainsFunc(s.Tags, func(t string) bool { return strings.EqualFold(t, tag) })
}
