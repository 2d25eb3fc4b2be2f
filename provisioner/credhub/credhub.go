// Package credhub keeps the credentials of bindings in CredHub, where only the reader of each credential can read it.
// https://docs.cloudfoundry.org/api/credhub/version/main/
package credhub

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"code.cloudfoundry.org/credhub-cli/credhub"
	"code.cloudfoundry.org/credhub-cli/credhub/auth"
	"code.cloudfoundry.org/credhub-cli/credhub/credentials/values"
	"code.cloudfoundry.org/credhub-cli/credhub/permissions"
	"github.com/google/uuid"

	"mysql-broker/outbound"
)

const (
	// requestTime limits one request, including those for tokens.
	requestTime = 10 * time.Second
	// maxResponse limits a response, in bytes. A list of names takes about 150 for each.
	maxResponse = 8 << 20
	// oldest is the first version whose permissions have an API of their own.
	oldest = 2
)

// Config says where CredHub is, and who the broker is there: a client of UAA, or the owner of a certificate.
type Config struct {
	URL          string
	CA           []byte // more CAs to trust, in PEM
	ClientID     string
	ClientSecret string
	// Certificate and Key are paths of PEM files, which are read for every connection, because platforms renew them.
	Certificate, Key string
	Path             string // under which the broker stores credentials; it may be changed
}

// Client is safe for concurrent use. Its requests end with their contexts, except renewals of tokens.
type Client struct {
	cfg  Config
	http *http.Client

	mu      sync.Mutex
	login   auth.Strategy // nil before the first request, and after one that failed
	version string
}

// New checks the configuration. It sends nothing.
func New(cfg Config) (*Client, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("read the CAs of the system: %w", err)
	}
	if len(cfg.CA) > 0 && !roots.AppendCertsFromPEM(cfg.CA) {
		return nil, errors.New("the CA holds no PEM certificate")
	}
	secure := &tls.Config{RootCAs: roots}
	if cfg.Certificate != "" {
		secure.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(cfg.Certificate, cfg.Key)
			return &pair, err
		}
	}
	return &Client{cfg: cfg, http: outbound.New(outbound.Options{URL: cfg.URL, TLS: secure, Time: requestTime,
		Bytes: maxResponse})}, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Name returns the name of the credential of an account. Accounts are never used twice, so a delayed request for one
// binding cannot change what another one stores.
func (c *Client) Name(account string) string { return nameUnder(c.cfg.Path, account) }

func nameUnder(path, account string) string { return path + "/" + account + "/credentials" }

// Application is the reader that is an application of Cloud Foundry, which identifies itself by its certificate.
func Application(guid string) string { return "mtls-app:" + guid }

// UAAClient is the reader that is a client of UAA.
func UAAClient(id string) string { return "uaa-client:" + id }

// Store sets a credential, a JSON object, and lets one reader read it. It may run again.
func (c *Client) Store(ctx context.Context, name string, value map[string]any, reader string) error {
	return c.do(ctx, "store "+name, func(hub *credhub.CredHub) error {
		stored, err := hub.SetJSON(name, values.JSON(value))
		if err != nil {
			return err
		}
		if stored.Name != name {
			return fmt.Errorf("%w: it stored %q", ErrResponse, stored.Name)
		}
		// Adding a permission that exists is refused.
		p, err := hub.GetPermissionByPathActor(name, reader)
		if isAbsent(err) {
			p, err = hub.AddPermission(name, reader, []string{"read"})
		}
		return checkPermission(p, err, name, reader)
	})
}

// ErrResponse says that a response is not one to what CredHub was asked.
var ErrResponse = errors.New("what CredHub responds is about something else")

// checkPermission returns the error of a request, or one if its response is not the permission of that reader.
func checkPermission(p *permissions.Permission, err error, name, reader string) error {
	if err == nil && (p.Path != name || p.Actor != reader || !slices.Contains(p.Operations, "read") ||
		uuid.Validate(p.UUID) != nil) {
		err = fmt.Errorf("%w: a permission of %q for %q", ErrResponse, p.Actor, p.Path)
	}
	return err
}

// Sum identifies what Store stores.
func Sum(value map[string]any) ([]byte, error) {
	text, err := json.Marshal(value)
	sum := sha256.Sum256(text)
	return sum[:], err
}

// Holds reports whether CredHub has what was stored with that Sum, and lets its reader read it. Others may have changed
// either, and CredHub may have been restored from a backup.
func (c *Client) Holds(ctx context.Context, name string, sum []byte, reader string) (holds bool, err error) {
	err = c.do(ctx, "read "+name, func(hub *credhub.CredHub) error {
		there, err := hub.GetLatestVersion(name)
		if err == nil && there.Name != name {
			err = fmt.Errorf("%w: %q", ErrResponse, there.Name)
		}
		if err == nil {
			var p *permissions.Permission
			p, err = hub.GetPermissionByPathActor(name, reader)
			err = checkPermission(p, err, name, reader)
		}
		if isAbsent(err) {
			return nil
		}
		value, _ := there.Value.(map[string]any)
		has, encoding := Sum(value)
		holds = bytes.Equal(has, sum)
		return errors.Join(err, encoding)
	})
	return holds, err
}

// Delete deletes a credential and the permission of its reader. It may run again. CredHub keeps the permissions of
// deleted credentials. done is false if CredHub said that it lacks one of them, or that the broker may not delete it:
// see CheckDeleting.
func (c *Client) Delete(ctx context.Context, name, reader string) (done bool, err error) {
	err = c.do(ctx, "delete "+name, func(hub *credhub.CredHub) error {
		p, reading := hub.GetPermissionByPathActor(name, reader)
		if reading = checkPermission(p, reading, name, reader); reading == nil {
			_, reading = hub.DeletePermission(p.UUID)
		}
		if reading != nil && !isAbsent(reading) {
			return reading
		}
		credential := hub.Delete(name)
		done = reading == nil && credential == nil
		if isAbsent(credential) {
			return nil
		}
		return credential
	})
	return done, err
}

// PathOf returns the path in a name that Name has returned. It is that of another Config if that was changed since.
func PathOf(name string) string { return path.Dir(path.Dir(name)) }

// Path is where Name has its names.
func (c *Client) Path() string { return c.cfg.Path }

// ProbeName is the name of a credential that exists only while CheckDeleting runs.
func ProbeName(path string) string { return nameUnder(path, "probe") }

// ErrNotDeleted says that CredHub has not deleted what it had stored just before.
var ErrNotDeleted = errors.New("CredHub does not let the broker delete under this path; give the broker the " +
	"operations read, write, delete, read_acl and write_acl there")

// CheckDeleting returns an error unless CredHub lets the broker delete credentials and permissions under a path.
// CredHub gives the same answer, 404, for what is absent and for what a client may not delete. So this stores and
// deletes a credential without content.
func (c *Client) CheckDeleting(ctx context.Context, path string) error {
	name, reader := ProbeName(path), UAAClient("nobody")
	if err := c.Store(ctx, name, map[string]any{}, reader); err != nil {
		return err
	}
	done, err := c.Delete(ctx, name, reader)
	if err == nil && !done {
		err = &Error{"delete " + name, ErrNotDeleted}
	}
	return err
}

// Names lists the credentials under a path that the broker may read.
func (c *Client) Names(ctx context.Context, path string) (names []string, err error) {
	err = c.do(ctx, "list the credentials under "+path, func(hub *credhub.CredHub) error {
		found, err := hub.FindByPath(path)
		for _, f := range found.Credentials {
			if !strings.HasPrefix(f.Name, path+"/") {
				return fmt.Errorf("%w: %q", ErrResponse, f.Name)
			}
			names = append(names, f.Name)
		}
		return err
	})
	return names, err
}

// isAbsent reports whether there is no such credential or permission, which CredHub also says to those who may not see
// it.
func isAbsent(err error) bool {
	_, absent := errors.AsType[*credhub.NotFoundError](err)
	return absent
}

// do logs in if that is necessary, and calls fn. The next call after an error logs in again: the library does so only
// when a token has expired, and not when it was revoked or its key was replaced.
func (c *Client) do(ctx context.Context, what string, fn func(*credhub.CredHub) error) error {
	login, version, err := c.connect(ctx)
	if err == nil {
		var hub *credhub.CredHub
		hub, err = credhub.New(c.cfg.URL, credhub.ServerVersion(version),
			credhub.Auth(func(auth.Config) (auth.Strategy, error) { return within{ctx, login}, nil }))
		if err == nil {
			err = fn(hub)
		}
	}
	if err != nil {
		c.mu.Lock()
		if c.login == login {
			c.login = nil
		}
		c.mu.Unlock()
		return &Error{what, err}
	}
	return nil
}

// Error says that CredHub did not do something.
type Error struct {
	what string
	err  error
}

func (e *Error) Error() string { return fmt.Sprintf("CredHub: %s: %v", e.what, e.err) }

// Unwrap returns the error of the request.
func (e *Error) Unwrap() error { return e.err }

// connect finds out the version of CredHub and the address of its UAA, unless that is known. It does not keep others
// waiting for a CredHub that does not answer.
func (c *Client) connect(ctx context.Context) (login auth.Strategy, version string, _ error) {
	c.mu.Lock()
	login, version = c.login, c.version
	c.mu.Unlock()
	if login != nil {
		return login, version, nil
	}
	log := auth.Noop
	if c.cfg.ClientID != "" {
		log = auth.UaaClientCredentials(c.cfg.ClientID, c.cfg.ClientSecret)
	}
	var client *http.Client // which sends all requests, also those for tokens
	hub, err := credhub.New(c.cfg.URL, credhub.Auth(func(cfg auth.Config) (_ auth.Strategy, err error) {
		client = cfg.Client()
		*client = *c.http
		client.Transport = transportWithin{ctx, c.http.Transport}
		login, err = log(cfg)
		return login, err
	}))
	if err != nil {
		return nil, "", err
	}
	found, err := hub.ServerVersion()
	if err != nil {
		return nil, "", err
	}
	if found.Segments()[0] < oldest {
		return nil, "", fmt.Errorf("its version is %s, and the broker needs %d.0 or newer", found, oldest)
	}
	client.Transport = c.http.Transport
	c.mu.Lock()
	defer c.mu.Unlock()
	c.login, c.version = login, found.String()
	return c.login, c.version, nil
}

// transportWithin sends requests that end with a context.
type transportWithin struct {
	ctx  context.Context
	base http.RoundTripper
}

func (t transportWithin) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.base.RoundTrip(r.WithContext(t.ctx))
}

// within sends requests that end with a context.
type within struct {
	ctx context.Context // the library's methods have no parameter for it
	auth.Strategy
}

func (w within) Do(r *http.Request) (*http.Response, error) {
	return w.Strategy.Do(r.WithContext(w.ctx))
}

var validPath = regexp.MustCompile(`^(/[-.\w]+)+$`)

// CheckPath returns an error if a path cannot be Config.Path.
func CheckPath(path string) error {
	if !validPath.MatchString(path) {
		return errors.New("it is not a path of letters, digits, '-', '_', '.' and '/', such as /c/mysql-broker, that " +
			"begins with a slash and ends without one")
	}
	return nil
}
