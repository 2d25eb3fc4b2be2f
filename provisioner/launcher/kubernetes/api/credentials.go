package api

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/goccy/go-yaml"

	"mysql-broker/outbound"
)

// Credentials are the address of an API server and a login to it.
type Credentials struct {
	InCluster bool // use the ServiceAccount of the broker's pod; all other fields are empty

	URL   string
	CA    []byte // PEM; empty for those of this host
	Token string

	// CAFile and TokenFile are used instead of CA and Token. They are read again each minute, and when the API server has
	// another certificate or refuses the token.
	CAFile, TokenFile string

	// Certificate and Key, in PEM, replace the token.
	Certificate []byte
	Key         []byte
}

// The files with a pod's own credentials.
// https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/
const serviceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// Client returns a client that uses these credentials.
func (c Credentials) Client(namespace string) (*Client, error) {
	if c.InCluster {
		host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
		if host == "" || port == "" {
			return nil, errors.New("the broker does not run in a pod of Kubernetes, which would have " +
				"KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT")
		}
		c.URL = "https://" + net.JoinHostPort(host, port)
		c.CAFile, c.TokenFile = serviceAccountDir+"/ca.crt", serviceAccountDir+"/token"
	}
	if !strings.HasPrefix(c.URL, "https://") {
		return nil, fmt.Errorf("the API server's URL %q does not begin with https://", c.URL)
	}
	made := &Client{url: strings.TrimRight(c.URL, "/"), namespace: namespace,
		ca: source{file: c.CAFile, text: string(c.CA)}}
	switch {
	case len(c.Certificate) > 0:
		pair, err := tls.X509KeyPair(c.Certificate, c.Key)
		if err != nil {
			return nil, fmt.Errorf("the client certificate: %w", err)
		}
		made.login = []tls.Certificate{pair}
	case c.TokenFile != "" || c.Token != "":
		made.token = &source{file: c.TokenFile, text: c.Token}
	default:
		return nil, errors.New("there is neither a token nor a client certificate")
	}
	_, err := made.client()
	return made, err
}

// client returns the HTTP client that trusts the present CA. While somebody writes the CA's file, that is the last one.
func (c *Client) client() (*http.Client, error) {
	ca, err := c.ca.read()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && c.http != nil && ca == c.trusted {
		return c.http, nil
	}
	verify := &tls.Config{Certificates: c.login}
	if err == nil && (ca != "" || c.ca.file != "") {
		verify.RootCAs = x509.NewCertPool()
		if !verify.RootCAs.AppendCertsFromPEM([]byte(ca)) {
			err = errors.New("it is not PEM")
		}
	}
	if err != nil {
		if c.ca.renew(); c.http != nil {
			return c.http, nil
		}
		return nil, fmt.Errorf("the API server's CA: %w", err)
	}
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
	c.http, c.trusted = outbound.New(outbound.Options{URL: c.url, TLS: verify, Time: longestTime, Bytes: maxResponse}), ca
	return c.http, nil
}

// kubeconfig has the fields that the launcher reads in kubectl's configuration file.
// https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/
type kubeconfig struct {
	CurrentContext string `yaml:"current-context"`
	Contexts       []struct {
		Name    string `yaml:"name"`
		Context struct {
			Cluster string `yaml:"cluster"`
			User    string `yaml:"user"`
		} `yaml:"context"`
	} `yaml:"contexts"`
	Clusters []struct {
		Name    string `yaml:"name"`
		Cluster struct {
			Server string `yaml:"server"`
			CAFile string `yaml:"certificate-authority"`
			CAData string `yaml:"certificate-authority-data"`
		} `yaml:"cluster"`
	} `yaml:"clusters"`
	Users []struct {
		Name string `yaml:"name"`
		User struct {
			Token           string         `yaml:"token"`
			TokenFile       string         `yaml:"tokenFile"`
			CertificateFile string         `yaml:"client-certificate"`
			CertificateData string         `yaml:"client-certificate-data"`
			KeyFile         string         `yaml:"client-key"`
			KeyData         string         `yaml:"client-key-data"`
			Exec            map[string]any `yaml:"exec"`
			AuthProvider    map[string]any `yaml:"auth-provider"`
		} `yaml:"user"`
	} `yaml:"users"`
}

// ReadKubeconfig reads the credentials of a file's current context. It does not support the login plug-ins of clouds: a
// broker needs the token of a ServiceAccount.
func ReadKubeconfig(path string) (c Credentials, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("kubeconfig %s: %w", path, err)
		}
	}()
	text, err := os.ReadFile(path)
	if err != nil {
		return c, err
	}
	var file kubeconfig
	if err := yaml.Unmarshal(text, &file); err != nil {
		return c, errors.New("it is not YAML") // the parser's error may quote a secret
	}
	for _, context := range file.Contexts {
		if context.Name != file.CurrentContext {
			continue
		}
		for _, cluster := range file.Clusters {
			if cluster.Name == context.Context.Cluster {
				c.URL = cluster.Cluster.Server
				if cluster.Cluster.CAData == "" {
					c.CAFile = cluster.Cluster.CAFile
				}
				if c.CA, err = base64.StdEncoding.DecodeString(cluster.Cluster.CAData); err != nil {
					return c, err
				}
			}
		}
		for _, user := range file.Users {
			if user.Name != context.Context.User {
				continue
			}
			u := user.User
			if u.Exec != nil || u.AuthProvider != nil {
				return c, errors.New("it logs in by a plug-in, which is not supported: make a token for a ServiceAccount")
			}
			c.Token, c.TokenFile = u.Token, u.TokenFile
			if c.Certificate, err = inline(u.CertificateData, u.CertificateFile); err != nil {
				return c, err
			}
			if c.Key, err = inline(u.KeyData, u.KeyFile); err != nil {
				return c, err
			}
		}
		return c, nil
	}
	return c, fmt.Errorf("it has no context %q", file.CurrentContext)
}

// inline is a value that a kubeconfig contains in base64, or the name of a file with it.
func inline(data, file string) ([]byte, error) {
	if data != "" {
		return base64.StdEncoding.DecodeString(data)
	}
	if file == "" {
		return nil, nil
	}
	return os.ReadFile(file)
}

// sourceAge is how long what a file contains is used before the file is read again. Kubernetes replaces tokens hourly.
// https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/
const sourceAge = time.Minute

// source is a constant text, or that of a file which others replace.
type source struct {
	file string // "" if the text does not change

	mu    sync.Mutex
	text  string
	since time.Time // when it was read
}

func (s *source) read() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == "" || time.Since(s.since) < sourceAge {
		return s.text, nil
	}
	text, err := os.ReadFile(s.file)
	if err != nil {
		return "", err
	}
	s.text, s.since = string(text), time.Now()
	return s.text, nil
}

// renew makes the next request read the file again. It returns false if there is no file.
func (s *source) renew() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = time.Time{}
	return s.file != ""
}
