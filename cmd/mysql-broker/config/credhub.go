package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"mysql-broker/provisioner/credhub"
)

// CredHub says where the credentials of bindings are stored. Open returns nil if the platform gets them itself.
type CredHub struct{ client *credhub.Config }

// Open prepares the use of CredHub. It returns nil if none is configured.
func (c CredHub) Open() (*credhub.Client, error) {
	if c.client == nil {
		return nil, nil
	}
	return credhub.New(*c.client)
}

// instanceCertificate and instanceKey are the variables in which Cloud Foundry names the files that identify an
// application. systemCAs is a directory of CAs that all its applications trust, CredHub's among them.
// https://docs.cloudfoundry.org/devguide/deploy-apps/instance-identity.html
const (
	instanceCertificate = "CF_INSTANCE_CERT"
	instanceKey         = "CF_INSTANCE_KEY"
	systemCAs           = "CF_SYSTEM_CERT_PATH"
)

var credHubVariables = []Variable{
	{"CREDHUB_URL", "", "URL of CredHub, such as https://credhub.service.cf.internal:8844, where credentials of " +
		"bindings are stored; the default is the bound service tagged mysql-credhub or named mysql-credhub…, or else " +
		"platforms get the credentials themselves"},
	{"CREDHUB_CLIENT", "", "the broker's client of CredHub's UAA; default: on Cloud Foundry, the certificate in " +
		instanceCertificate + " and " + instanceKey},
	{"CREDHUB_CLIENT_SECRET", "", "that client's secret"},
	{"CREDHUB_CA_CERTIFICATE", "", "CA of CredHub and its UAA, in PEM, besides those of the system and, on Cloud " +
		"Foundry, of the platform"},
	{"CREDHUB_PATH", "/c/mysql-broker", "the beginning of the names of the credentials; each broker installation needs " +
		"its own"},
}

// hubMark is the tag or name prefix of the user-provided service that says where CredHub is.
const hubMark = "mysql-credhub"

// credHubService are the credentials of that service.
type credHubService struct {
	URL    string `json:"url"`
	Client string `json:"client"`
	Secret string `json:"client_secret"`
	CA     string `json:"ca_certificate"`
	Path   string `json:"path"`
}

func (r *reader) credHub(bound services) CredHub {
	service := credHubService{URL: r.value("CREDHUB_URL"), Client: r.value("CREDHUB_CLIENT"),
		Secret: r.value("CREDHUB_CLIENT_SECRET"), CA: r.value("CREDHUB_CA_CERTIFICATE"), Path: r.value("CREDHUB_PATH")}
	what := "CREDHUB_URL"
	if service.URL == "" {
		found, err := only[credHubService](bound.userProvided(), hubMark, "CredHub",
			"url, client, client_secret, ca_certificate and path, as strings")
		r.fail(err)
		if found == nil {
			return CredHub{}
		}
		found.Path = cmp.Or(found.Path, service.Path)
		service, what = *found, "the bound service for CredHub"
	}
	if r.getenv("CREDHUB_DEBUG") == "true" {
		r.fail(errors.New("CREDHUB_DEBUG is true, so that CredHub's library would print every credential; unset it"))
	}
	c, err := service.config(r.getenv)
	r.fail(prefixed(what, err))
	return c
}

func (s credHubService) config(getenv func(string) string) (CredHub, error) {
	u, err := url.Parse(s.URL)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" ||
		u.RawQuery != "" || u.Fragment != "" { // the error could quote a secret
		return CredHub{}, errors.New("it is not a URL of https:// and a host alone, such as " +
			"https://credhub.service.cf.internal:8844")
	}
	c := credhub.Config{URL: "https://" + u.Host, ClientID: s.Client, ClientSecret: s.Secret, Path: s.Path}
	if err := credhub.CheckPath(s.Path); err != nil {
		return CredHub{}, fmt.Errorf("CREDHUB_PATH: %w", err)
	}
	switch {
	case s.Client != "" && s.Secret == "" || s.Client == "" && s.Secret != "":
		return CredHub{}, errors.New("it needs a client and its secret, or neither")
	case s.Client == "":
		c.Certificate, c.Key = getenv(instanceCertificate), getenv(instanceKey)
		if c.Certificate == "" || c.Key == "" {
			return CredHub{}, fmt.Errorf("it needs CREDHUB_CLIENT and CREDHUB_CLIENT_SECRET, because Cloud Foundry's %s "+
				"and %s are not set", instanceCertificate, instanceKey)
		}
	}
	if c.CA, err = platformCAs(getenv(systemCAs)); err != nil {
		return CredHub{}, err
	}
	c.CA = append(c.CA, s.CA...)
	if _, err := credhub.New(c); err != nil { // without I/O on the network
		return CredHub{}, err
	}
	return CredHub{&c}, nil
}

// platformCAs reads the CAs that Cloud Foundry gives applications.
func platformCAs(directory string) (all []byte, err error) {
	if directory == "" {
		return nil, nil
	}
	for _, pattern := range []string{"*.crt", "*.pem"} {
		paths, err := filepath.Glob(filepath.Join(directory, pattern))
		if err != nil {
			return nil, fmt.Errorf("list the CAs in %s: %w", systemCAs, err)
		}
		for _, path := range paths {
			pem, err := os.ReadFile(path) // #nosec G304 -- the platform names it
			if err != nil {
				return nil, fmt.Errorf("read a CA in %s: %w", systemCAs, err)
			}
			all = append(append(all, pem...), '\n')
		}
	}
	return all, nil
}
