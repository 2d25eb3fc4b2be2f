package openid

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"
)

// CloudController answers as Cloud Controller is documented to, and its own tests check: which UAA it has, and what the
// person may do whose token is sent. Cloud Controller itself cannot be had without a Cloud Foundry.
// https://v3-apidocs.cloudfoundry.org/#get-permissions-for-a-managed-service-instance
type CloudController struct {
	URL string

	provider *Provider
	mu       sync.Mutex
	verifier *oidc.IDTokenVerifier
	allowed  map[[2]string]Permission
	status   int // to answer instead, 0 for none
	asked    int
}

// Permission is what somebody may do with an instance, as Cloud Controller says it.
type Permission struct {
	Manage bool `json:"manage"`
	Read   bool `json:"read"`
}

// StartCloudController runs one until the test ends, whose UAA is p.
func StartCloudController(t testing.TB, p *Provider) *CloudController {
	c := &CloudController{provider: p, allowed: map[[2]string]Permission{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", c.root)
	mux.HandleFunc("GET /v3/service_instances/{guid}/permissions", c.permissions)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

// Allow says what somebody may do with an instance. Of instances that nobody may do anything with, there are none.
func (c *CloudController) Allow(person, guid string, p Permission) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.allowed[[2]string{person, guid}] = p
}

// Fail has every question about permissions answered with a status, until it is 0. Like Cloud Foundry's router, it
// answers 404 while there is no Cloud Controller.
func (c *CloudController) Fail(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status = status
}

// Asked returns the number of requests for permissions.
func (c *CloudController) Asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

func (c *CloudController) root(w http.ResponseWriter, _ *http.Request) {
	answerJSON(w, http.StatusOK, map[string]any{"links": map[string]any{
		"self": map[string]string{"href": c.URL}, "uaa": map[string]string{"href": c.provider.URL()},
		"login": map[string]string{"href": c.provider.URL()}}})
}

func (c *CloudController) permissions(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if c.status == http.StatusNotFound {
		w.Header().Set("X-Cf-Routererror", "unknown_route")
		http.Error(w, "404 Not Found: Requested route ('api.example.com') does not exist.", c.status)
		return
	}
	if c.status != 0 {
		answerJSON(w, c.status, map[string]any{"errors": []map[string]any{{"code": 10001, "title": "UnknownError"}}})
		return
	}
	person, ok := c.person(r)
	if !ok {
		answerJSON(w, http.StatusUnauthorized, map[string]any{"errors": []map[string]any{{"code": 10002,
			"title": "CF-NotAuthenticated", "detail": "Authentication error"}}})
		return
	}
	guid, known := r.PathValue("guid"), false
	for key := range c.allowed {
		known = known || key[1] == guid
	}
	if !known {
		answerJSON(w, http.StatusNotFound, map[string]any{"errors": []map[string]any{{"code": 10010,
			"title": "CF-ResourceNotFound", "detail": "Service instance not found"}}})
		return
	}
	answerJSON(w, http.StatusOK, c.allowed[[2]string{person, guid}])
}

// person is whom the request's token is of.
func (c *CloudController) person(r *http.Request) (string, bool) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return "", false
	}
	if c.verifier == nil {
		p, err := oidc.NewProvider(r.Context(), c.provider.Issuer)
		if err != nil {
			return "", false
		}
		c.verifier = p.Verifier(&oidc.Config{SkipClientIDCheck: true})
	}
	verified, err := c.verifier.Verify(r.Context(), token)
	if err != nil {
		return "", false
	}
	return verified.Subject, true
}

func answerJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}
