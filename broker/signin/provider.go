package signin

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

const (
	askTime   = 5 * time.Second // for each answer of the provider and of Cloud Controller
	retryTime = 2 * time.Second // before the provider is looked for again
)

// Provider is an OpenID provider and the broker's client there.
type Provider struct {
	Issuer       string // "" for the UAA that Cloud Controller names
	ClientID     string
	ClientSecret string
	Scopes       []string // to ask for, openid among them
}

// provider finds an OpenID provider when it is first needed, and again until it is there.
type provider struct {
	Provider
	cloudController string
	callback        string
	client          *http.Client

	mu     sync.Mutex
	found  *endpoints
	failed error // the last search, until retry
	retry  time.Time
}

func newProvider(p Provider, cloudController, callback string) *provider {
	return &provider{Provider: p, cloudController: cloudController, callback: callback,
		client: &http.Client{Timeout: askTime}}
}

// endpoints is what a provider's metadata tell.
// https://openid.net/specs/openid-connect-discovery-1_0.html#ProviderMetadata
type endpoints struct {
	oauth        *oauth2.Config
	idTokens     *oidc.IDTokenVerifier
	accessTokens *oidc.IDTokenVerifier
	keys         string // where those are that tokens are signed with
	endSession   string // "" if the provider has no sign-out
}

// endpoints finds the provider, once. While it is away, few of many requests ask for it.
func (p *provider) endpoints(ctx context.Context) (*endpoints, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found != nil || time.Now().Before(p.retry) {
		return p.found, p.failed
	}
	// Whoever waits for the lock needs the answer as well, even if this request is given up.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*askTime)
	defer cancel()
	if p.found, p.failed = p.discover(ctx); p.failed != nil {
		p.failed = fmt.Errorf("find the OpenID provider: %w", p.failed)
		p.retry = time.Now().Add(retryTime)
	}
	return p.found, p.failed
}

func (p *provider) discover(ctx context.Context) (*endpoints, error) {
	issuer := p.Issuer
	if issuer == "" {
		var err error
		if issuer, err = p.uaa(ctx); err != nil {
			return nil, err
		}
	}
	discovered, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), issuer)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", issuer, err)
	}
	var more struct {
		Keys       string `json:"jwks_uri"`
		EndSession string `json:"end_session_endpoint"`
	}
	if err := discovered.Claims(&more); err != nil {
		return nil, fmt.Errorf("read the metadata of %s: %w", issuer, err)
	}
	return &endpoints{
		keys:       more.Keys,
		endSession: more.EndSession,
		oauth: &oauth2.Config{ClientID: p.ClientID, ClientSecret: p.ClientSecret, Endpoint: discovered.Endpoint(),
			RedirectURL: p.callback, Scopes: p.Scopes},
		idTokens: discovered.Verifier(&oidc.Config{ClientID: p.ClientID}),
		// Its audience are the APIs that take it.
		accessTokens: discovered.Verifier(&oidc.Config{SkipClientIDCheck: true}),
	}, nil
}

// uaa is the issuer at the UAA that Cloud Controller names in its root document.
// https://v3-apidocs.cloudfoundry.org/#global-api-root, https://docs.cloudfoundry.org/api/uaa/#openid-connect-flow
func (p *provider) uaa(ctx context.Context) (string, error) {
	var root struct {
		Links struct {
			UAA struct{ Href string }
		}
	}
	status, err := getJSON(ctx, p.client, p.cloudController+"/", "", &root)
	switch {
	case err != nil:
		return "", fmt.Errorf("ask Cloud Controller for its UAA: %w", err)
	case status != http.StatusOK || root.Links.UAA.Href == "":
		return "", fmt.Errorf("ask Cloud Controller for its UAA: it answered %d and named none", status)
	}
	return strings.TrimSuffix(root.Links.UAA.Href, "/") + "/oauth/token", nil
}

// authURL is where the browser is sent.
func (e *endpoints) authURL(a attempt) string {
	return e.oauth.AuthCodeURL(a.state(), oidc.Nonce(a.nonce()), oauth2.S256ChallengeOption(a.verifier()))
}

// identity is what the provider says of somebody.
type identity struct {
	claims
	subject     string
	accessToken string
	idToken     string
	expires     time.Time // the access token; zero if that is not known
}

// redeem exchanges the code of a callback for the tokens, and checks that they were made for this attempt.
func (p *provider) redeem(ctx context.Context, e *endpoints, a attempt, code string) (identity, error) {
	ctx = oidc.ClientContext(ctx, p.client)
	token, err := e.oauth.Exchange(ctx, code, oauth2.VerifierOption(a.verifier()))
	if err != nil {
		return identity{}, err
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return identity{}, errors.New("the provider gave no ID token: is the client allowed the scope openid?")
	}
	id, err := e.idTokens.Verify(ctx, raw)
	if err != nil {
		return identity{}, errors.Join(fmt.Errorf("check the ID token: %w", err), p.fetchKeys(ctx, e))
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(a.nonce())) != 1 {
		return identity{}, errors.New("check the ID token: it was made for another sign-in")
	}
	found := identity{subject: id.Subject, accessToken: token.AccessToken, idToken: raw, expires: token.Expiry}
	if err := id.Claims(&found.claims); err != nil {
		return identity{}, fmt.Errorf("read the ID token: %w", err)
	}
	// UAA has the scopes, and Keycloak the roles, in the access token. One that is not a JWT of this provider for this
	// person, which it need not be, tells nothing.
	if access, err := e.accessTokens.Verify(ctx, token.AccessToken); err == nil && access.Subject == id.Subject {
		var more claims
		if err := access.Claims(&more); err != nil {
			return identity{}, fmt.Errorf("read the access token: %w", err)
		}
		found.access = &more
	}
	return found, nil
}

// errNoKeys is in the chain of every error that says that the provider's keys cannot be had now.
var errNoKeys = errors.New("fetch the provider's keys")

// fetchKeys finds out whether a token could not be checked for want of keys. The verifier, which fetches them where it
// does not know the right one yet, words that, but its error cannot be told from that of a wrong signature.
func (p *provider) fetchKeys(ctx context.Context, e *endpoints) error {
	var keys struct{}
	status, err := getJSON(ctx, p.client, e.keys, "", &keys)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errNoKeys, err)
	case status != http.StatusOK:
		return fmt.Errorf("%w: it answered %d", errNoKeys, status)
	}
	return nil
}

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 1 << 20

// getJSON reads v from an answer. With another status than 200, that may be something else, which leaves v as it is or
// filled in part. token may be "".
func getJSON(ctx context.Context, client *http.Client, address, token string, v any) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Accept", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	err = json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(v)
	if err != nil && answer.StatusCode == http.StatusOK {
		return answer.StatusCode, fmt.Errorf("read the answer of %s: %w", address, err)
	}
	return answer.StatusCode, nil
}
