package main

import (
	"context"
	"time"

	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// user is somebody who can log in; the name is the subject as well.
type user struct {
	Name     string
	Password string
	Groups   []string
}

// people is the example's storage, which keeps requests, codes and tokens, with users and a client of our own.
type people struct {
	*storage.Storage
	users  map[string]user
	client client
}

func newPeople(cfg config) *people {
	p := &people{users: map[string]user{}, client: client{storage.WebClient(cfg.ClientID, cfg.ClientSecret)}}
	for _, u := range cfg.Users {
		p.users[u.Name] = u
	}
	p.Storage = storage.NewStorageWithClients(p, map[string]*storage.Client{cfg.ClientID: p.client.Client})
	return p
}

// GetUserByID implements storage.UserStore.
func (p *people) GetUserByID(id string) *storage.User {
	u, ok := p.users[id]
	if !ok {
		return nil
	}
	return &storage.User{ID: u.Name, Username: u.Name, Password: u.Password}
}

// GetUserByUsername implements storage.UserStore.
func (p *people) GetUserByUsername(name string) *storage.User { return p.GetUserByID(name) }

// ExampleClientID implements storage.UserStore.
func (p *people) ExampleClientID() string { return "" }

// GetClientByClientID implements op.Storage.
func (p *people) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	if _, err := p.Storage.GetClientByClientID(ctx, id); err != nil {
		return nil, err
	}
	return p.client, nil
}

// CreateAccessToken implements op.Storage.
func (p *people) CreateAccessToken(ctx context.Context, r op.TokenRequest) (string, time.Time, error) {
	id, _, err := p.Storage.CreateAccessToken(ctx, r)
	return id, time.Now().Add(time.Hour), err
}

// GetPrivateClaimsFromScopes implements op.Storage: it tells what an access token says beside the standard's claims.
func (p *people) GetPrivateClaimsFromScopes(_ context.Context, subject, _ string, _ []string) (map[string]any, error) {
	return map[string]any{"groups": p.users[subject].Groups, "user_name": subject}, nil
}

// SetUserinfoFromRequest implements op.CanSetUserinfoFromRequest: it tells what an ID token says.
func (p *people) SetUserinfoFromRequest(_ context.Context, info *oidc.UserInfo, r op.IDTokenRequest, _ []string) error {
	info.Subject, info.PreferredUsername = r.GetSubject(), r.GetSubject()
	return nil
}

// client is the broker's. It may come back to any port of this machine.
type client struct{ *storage.Client }

func (client) RedirectURIGlobs() []string { return anyPort("/dashboard/sign-in/callback") }

func (client) PostLogoutRedirectURIGlobs() []string { return anyPort("/dashboard/sign-in/out") }

func anyPort(path string) []string {
	return []string{"http://127.0.0.1:*" + path, "http://localhost:*" + path, "https://127.0.0.1:*" + path}
}

func (client) LoginURL(request string) string       { return "/login?request=" + request }
func (client) AccessTokenType() op.AccessTokenType  { return op.AccessTokenTypeJWT }
func (client) IDTokenUserinfoClaimsAssertion() bool { return true }
func (client) IsScopeAllowed(scope string) bool {
	return scope == "cloud_controller_service_permissions.read"
}
