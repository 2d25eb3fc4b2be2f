package signin

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"mysql-broker/outbound"
)

const (
	askTime   = 5 * time.Second // for each request to the provider and to Cloud Controller
	retryTime = 2 * time.Second // before the next attempt to find the provider

	maxResponse = 1 << 20 // bytes
)

// Provider is an OpenID provider and the broker's client there.
type Provider struct {
	Issuer       string // "" means the UAA that Cloud Controller names
	ClientID     string
	ClientSecret string
	Scopes       []string // to request, including openid
}

// provider finds an OpenID provider when it is first needed, and retries until that succeeds.
type provider struct {
	Provider
	cloudController string
	callback        string
	client          *http.Client

	mu     sync.Mutex
	found  *endpoints
	failed error // the error of the last attempt, until retry
	retry  time.Time
}

func newProvider(p Provider, cloudController, callback string) *provider {
	return &provider{Provider: p, cloudController: cloudController, callback: callback,
		client: newClient(cmp.Or(p.Issuer, cloudController))}
}

// newClient is for a server with that address, and those that its responses name.
func newClient(address string) *http.Client {
	return outbound.New(outbound.Options{URL: address, Time: askTime, Bytes: maxResponse})
}

// endpoints are those in a provider's metadata.
// https://openid.net/specs/openid-connect-discovery-1_0.html#ProviderMetadata
type endpoints struct {
	oauth        *oauth2.Config
	idTokens     *oidc.IDTokenVerifier
	accessTokens *oidc.IDTokenVerifier
	keys         string // URL of the keys that verify tokens
	endSession   string // "" if the provider has no sign-out
}

// endpoints finds the provider once. While the provider is down, only few requests try it.
func (p *provider) endpoints(ctx context.Context) (*endpoints, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found != nil || time.Now().Before(p.retry) {
		return p.found, p.failed
	}
	// Others that wait for the lock need the result too, even if this request is canceled.
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
	for _, address := range []string{discovered.Endpoint().AuthURL, more.EndSession} { // browsers are sent there
		if u, err := url.Parse(address); address != "" && (err != nil || !outbound.Safe(u)) {
			return nil, fmt.Errorf("the metadata of %s name %q, which does not begin with https://", issuer, address)
		}
	}
	return &endpoints{
		keys:       more.Keys,
		endSession: more.EndSession,
		oauth: &oauth2.Config{ClientID: p.ClientID, ClientSecret: p.ClientSecret, Endpoint: discovered.Endpoint(),
			RedirectURL: p.callback, Scopes: p.Scopes},
		idTokens: discovered.Verifier(&oidc.Config{ClientID: p.ClientID}),
		// Its audience are the APIs that accept it.
		accessTokens: discovered.Verifier(&oidc.Config{SkipClientIDCheck: true}),
	}, nil
}

// uaa is the issuer of the UAA that Cloud Controller names in its root document.
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

func (e *endpoints) authURL(a attempt) string {
	return e.oauth.AuthCodeURL(a.state(), oidc.Nonce(a.nonce()), oauth2.S256ChallengeOption(a.verifier()))
}

// identity is what the provider says about a person.
type identity struct {
	claims
	subject     string
	accessToken string
	idToken     string
	expires     time.Time // expiry of the access token; zero if not known
}

// redeem exchanges the code of a callback for the tokens, and checks that they belong to this attempt.
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
	// UAA has the scopes, and Keycloak the roles, in the access token. An access token that is not a JWT of this provider
	// for this person, which is allowed, is ignored.
	if access, err := e.accessTokens.Verify(ctx, token.AccessToken); err == nil && access.Subject == id.Subject {
		var more claims
		if err := access.Claims(&more); err != nil {
			return identity{}, fmt.Errorf("read the access token: %w", err)
		}
		found.access = &more
	}
	return found, nil
}

// errNoKeys is in the chain of every error that says that the provider's keys cannot be fetched now.
var errNoKeys = errors.New("fetch the provider's keys")

// fetchKeys finds out whether a token check has failed because the keys could not be fetched. The verifier fetches
// unknown keys, but its error for that cannot be distinguished from the error for a wrong signature.
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

// getJSON decodes a response into v. With a status other than 200, the response may be something else, which leaves v
// unchanged or partly filled. token may be "".
func getJSON(ctx context.Context, client *http.Client, address, token string, v any) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Accept", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	err = json.NewDecoder(response.Body).Decode(v)
	if err != nil && response.StatusCode == http.StatusOK {
		return response.StatusCode, fmt.Errorf("read the response of %s: %w", address, err)
	}
	return response.StatusCode, nil
}
