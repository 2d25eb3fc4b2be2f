// Command provider is an OpenID provider for tests: the protocol is zitadel/oidc's, which is certified, with users that
// the caller names. Like Cloud Foundry's UAA it has an issuer that ends with /oauth/token, and puts the groups of a person
// into the access token. It is a module of its own, so that what it needs is not among the broker's dependencies.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	"html/template"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// config is what the caller writes to standard input, which it then keeps open: the provider ends with it.
type config struct {
	ClientID     string
	ClientSecret string
	KeysAway     bool
	Users        []user
}

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to listen on")
	flag.Parse()
	if err := run(*listen); err != nil {
		log.Fatal(err)
	}
}

func run(address string) error {
	var cfg config
	if err := json.NewDecoder(os.Stdin).Decode(&cfg); err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	const path = "/oauth/token"
	issuer := "http://" + listener.Addr().String() + path
	var key [32]byte
	rand.Read(key[:])
	people := newPeople(cfg)
	provider, err := op.NewProvider(&op.Config{CryptoKey: key, CodeMethodS256: true, AuthMethodPost: true,
		DefaultLogoutRedirectURI: "/"}, people, op.StaticIssuer(issuer), op.WithAllowInsecure(),
		op.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle(path+"/", http.StripPrefix(path, provider))
	if cfg.KeysAway {
		mux.HandleFunc(path+"/keys", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "try again later", http.StatusServiceUnavailable)
		})
	}
	fromIssuer := op.NewIssuerInterceptor(provider.IssuerFromRequest)
	mux.Handle("/login", fromIssuer.HandlerFunc(login(people.Storage, op.AuthCallbackURL(provider))))
	fmt.Println(issuer)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	return server.Serve(listener)
}

var loginPage = template.Must(template.New("login").Parse(`<!doctype html>
<title>Log in</title>
<form method="post" action="/login">
<input type="hidden" name="request" value="{{.Request}}">
<input name="username" id="username" autocomplete="off"><input name="password" id="password" type="password">
<button id="log-in">Log in</button>
</form>
<p id="problem">{{.Problem}}</p>
`))

// login asks for a name and a password, and goes on to where the protocol goes on.
func login(people *storage.Storage, next func(ctx context.Context, id string) string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		page := struct{ Request, Problem string }{Request: r.FormValue("request")}
		if r.Method == http.MethodPost {
			err := people.CheckUsernamePassword(r.FormValue("username"), r.FormValue("password"), page.Request)
			if err == nil {
				http.Redirect(w, r, next(r.Context(), page.Request), http.StatusFound)
				return
			}
			page.Problem = err.Error()
			w.WriteHeader(http.StatusUnauthorized)
		}
		if err := loginPage.Execute(w, page); err != nil {
			log.Print(err)
		}
	}
}

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
