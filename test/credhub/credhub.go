// Package credhub imitates CredHub and its UAA, which do not run without a Cloud Foundry, for tests. It follows
// CredHub's published API, https://docs.cloudfoundry.org/api/credhub/version/main/, its documents on identities,
// permissions and mutual TLS, https://github.com/cloudfoundry/credhub/tree/main/docs, and UAA's on client credentials,
// https://docs.cloudfoundry.org/api/uaa/. It checks every request strictly: method, path, query, content type, fields
// and their types, names, identity and permissions. A request that real CredHub would refuse because of its form also
// fails the test. It is not CredHub: it proves nothing about versions of CredHub that differ from these documents.
package credhub

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/testdrive"
)

// Client and Secret are the broker's client at UAA. CloudController is the client that reads for service keys.
const (
	Client          = "mysql_broker_credhub"
	Secret          = "a client's secret, with spaces & signs"
	CloudController = "cc_service_key_client"
)

// Path is where the broker's client may store credentials.
const Path = "/c/mysql-broker"

// tokenTime is how long tokens are valid.
const tokenTime = time.Hour

// operations are those that there are.
var operations = []string{"read", "write", "delete", "read_acl", "write_acl"}

// Permission lets an actor do something with credentials of a name, or of all names that begin like Path does before
// its asterisk.
type Permission struct {
	Path       string   `json:"path"`
	Operations []string `json:"operations"`
	Actor      string   `json:"actor"`
	UUID       string   `json:"uuid"`
}

// Server is a CredHub with its UAA.
type Server struct {
	URL string
	CA  string // in PEM

	t   testing.TB
	uaa string

	mu           sync.Mutex
	credentials  map[string]map[string]any // by name
	permissions  []Permission
	tokens       map[string]time.Time // until when each is valid
	applications map[string]string    // GUIDs, by the certificates of instances
	refused      map[string]bool      // tokens that are refused although they have not expired
	granted      int
	answer       func(w http.ResponseWriter, r *http.Request, asUsual http.HandlerFunc) // nil: as usual
}

// Start starts a CredHub. It ends with the test, which fails if a request was not as CredHub's API has it.
func Start(t testing.TB) *Server {
	s := &Server{t: t, credentials: map[string]map[string]any{}, tokens: map[string]time.Time{},
		applications: map[string]string{}, refused: map[string]bool{}}
	s.permissions = []Permission{
		{Path: Path + "/*", Actor: "uaa-client:" + Client, Operations: operations, UUID: uuid.NewString()}}
	s.uaa = s.listen(s.serveUAA).URL
	hub := s.listen(s.serve)
	s.URL = hub.URL
	s.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hub.Certificate().Raw}))
	return s
}

// listen serves HTTPS with httptest's own certificate, which is that of its CA too.
func (s *Server) listen(handler http.HandlerFunc) *httptest.Server {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		answer := s.answer
		s.mu.Unlock()
		if answer == nil {
			answer = func(w http.ResponseWriter, r *http.Request, asUsual http.HandlerFunc) { asUsual(w, r) }
		}
		answer(w, r, handler)
	}))
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	s.t.Cleanup(func() {
		server.CloseClientConnections() // requests may hang
		server.Close()
	})
	return server
}

// Environment adds the variables of a broker that uses this CredHub as a client of UAA.
func (s *Server) Environment(env map[string]string) {
	env["CREDHUB_URL"], env["CREDHUB_CA_CERTIFICATE"] = s.URL, s.CA
	env["CREDHUB_CLIENT"], env["CREDHUB_CLIENT_SECRET"] = Client, Secret
}

// Grant lets an actor do everything under a path.
func (s *Server) Grant(actor, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.permissions = append(s.permissions,
		Permission{Path: path + "/*", Actor: actor, Operations: operations, UUID: uuid.NewString()})
}

// Allow takes all permissions under Path from the broker's client, or gives them back.
func (s *Server) Allow(allowed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.permissions[0].Operations = nil
	if allowed {
		s.permissions[0].Operations = operations
	}
}

// Answer has fn answer requests of that method to paths that begin so and with that text in the body, also those to UAA. An
// empty text stands for any. fn may be called from several goroutines at once.
func (s *Server) Answer(method, path, text string, fn http.HandlerFunc) {
	s.Meet(func(w http.ResponseWriter, r *http.Request, asUsual http.HandlerFunc) {
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if err == nil && strings.HasPrefix(r.URL.Path, path) && (method == "" || r.Method == method) &&
			bytes.Contains(body, []byte(text)) {
			asUsual = fn
		}
		asUsual(w, r)
	})
}

// Meet has fn answer all requests; nil: as usual.
func (s *Server) Meet(fn func(w http.ResponseWriter, r *http.Request, asUsual http.HandlerFunc)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = fn
}

// Read returns the credential that an actor reads, and whether there is one that it may read.
func (s *Server) Read(actor, name string) (map[string]any, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, found := s.credentials[name]
	return value, found && s.may(actor, name, "read")
}

// Contents lists the names of all credentials, and the permissions that were granted for single ones.
func (s *Server) Contents() (names []string, single []Permission) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.credentials {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, p := range s.permissions {
		if !strings.HasSuffix(p.Path, "/*") {
			single = append(single, p)
		}
	}
	return names, single
}

// Lose deletes a credential behind the broker's back, or stores one if value is not nil.
func (s *Server) Lose(name string, value map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.credentials, name)
	if value != nil {
		s.credentials[name] = value
	}
}

// InstanceIdentity writes the certificate and the key that Cloud Foundry gives an instance of an application. The server
// knows the certificate itself, whoever has signed it.
func (s *Server) InstanceIdentity(guid string) (certificatePath, keyPath string) {
	dir := s.t.TempDir()
	testdrive.WriteKeyPair(s.t, dir)
	certificatePath, keyPath = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	raw, err := os.ReadFile(certificatePath)
	require.NoError(s.t, err)
	certificate, _ := pem.Decode(raw)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applications[string(certificate.Bytes)] = guid
	return certificatePath, keyPath
}

// ExpireTokens ends all tokens: they have expired or, if revoked, are not known any more.
func (s *Server) ExpireTokens(revoked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for token := range s.tokens {
		s.tokens[token] = time.Now()
		s.refused[token] = revoked
	}
}

// Granted counts the tokens that UAA has issued.
func (s *Server) Granted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.granted
}

// broken fails the test, because the broker has sent what CredHub's API does not have, and refuses the request.
func (s *Server) broken(w http.ResponseWriter, r *http.Request, format string, args ...any) {
	s.t.Errorf("to CredHub: %s %s: %s", r.Method, r.URL, fmt.Sprintf(format, args...))
	refuse(w, http.StatusBadRequest, "The request could not be fulfilled because the request path or body did not meet "+
		"expectation. Please check the documentation for required formatting and retry your request.")
}

func refuse(w http.ResponseWriter, status int, sentence string) {
	respond(w, status, map[string]any{"error": sentence})
}

func respond(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if v != nil {
		_ = json.NewEncoder(w).Encode(v)
	}
}

func (s *Server) serveUAA(w http.ResponseWriter, r *http.Request) {
	err := r.ParseForm()
	if err != nil || r.Method != http.MethodPost || r.URL.Path != "/oauth/token" || r.URL.RawQuery != "" ||
		r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" || r.Header.Get("Accept") != "application/json" ||
		r.PostForm.Get("grant_type") != "client_credentials" || r.PostForm.Get("response_type") != "token" {
		s.broken(w, r, "UAA has no such request: %v, %v", r.Header, err)
		return
	}
	if r.PostForm.Get("client_id") != Client || r.PostForm.Get("client_secret") != Secret {
		respond(w, http.StatusUnauthorized, map[string]string{"error": "unauthorized",
			"error_description": "Bad credentials"})
		return
	}
	token := rand.Text()
	s.mu.Lock()
	s.tokens[token] = time.Now().Add(tokenTime)
	s.granted++
	s.mu.Unlock()
	respond(w, http.StatusOK, map[string]any{"access_token": token, "token_type": "bearer",
		"expires_in": int(tokenTime.Seconds()), "scope": "credhub.write credhub.read", "jti": uuid.NewString()})
}

// actor identifies the sender by its token or certificate, or refuses the request.
func (s *Server) actor(w http.ResponseWriter, r *http.Request) (string, bool) {
	if token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); bearer {
		until, known := s.tokens[token]
		switch {
		case !known || s.refused[token]:
			respond(w, http.StatusUnauthorized, map[string]string{"error": "invalid_token",
				"error_description": "The request token identity zone does not match the UAA server authorized by CredHub. " +
					"Please validate that your request token was issued by the UAA server authorized by CredHub and retry your " +
					"request."})
			return "", false
		case !time.Now().Before(until):
			respond(w, http.StatusUnauthorized, map[string]string{"error": "access_token_expired",
				"error_description": "Access token expired"})
			return "", false
		}
		return "uaa-client:" + Client, true
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		if guid, isApp := s.applications[string(r.TLS.PeerCertificates[0].Raw)]; isApp {
			return "mtls-app:" + guid, true
		}
	}
	respond(w, http.StatusUnauthorized, map[string]string{"error": "unauthorized",
		"error_description": "Full authentication is required to access this resource"})
	return "", false
}

// may reports whether an actor has a permission. The caller has locked mu.
func (s *Server) may(actor, name, operation string) bool {
	return slices.ContainsFunc(s.permissions, func(p Permission) bool {
		prefix, all := strings.CutSuffix(p.Path, "*")
		return p.Actor == actor && slices.Contains(p.Operations, operation) &&
			(p.Path == name || all && strings.HasPrefix(name, prefix))
	})
}

const (
	noCredential = "The request could not be completed because the credential does not exist or you do not have " +
		"sufficient authorization."
	noPermission = "The request could not be completed because the permission does not exist or you do not have " +
		"sufficient authorization."
)

var (
	nameForm = regexp.MustCompile(`^(/[a-zA-Z0-9\-_.:,()\[\]+]+)+$`)
	pathForm = regexp.MustCompile(`^(/[a-zA-Z0-9\-_.:,()\[\]+]+)+(/\*)?$`)
)

const (
	longestName  = 1024
	largestValue = 64 << 10
)

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/info" && r.Method == http.MethodGet { // the only one without authentication, beside /health
		respond(w, http.StatusOK, map[string]any{"auth-server": map[string]string{"url": s.uaa},
			"app": map[string]string{"name": "CredHub"}})
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	actor, known := s.actor(w, r)
	if !known {
		return
	}
	permission, single := strings.CutPrefix(r.URL.Path, "/api/v2/permissions/")
	switch {
	case r.URL.Path == "/version" && r.Method == http.MethodGet:
		respond(w, http.StatusOK, map[string]string{"version": "2.12.76"})
	case r.URL.Path == "/api/v1/data" && r.Method == http.MethodPut:
		s.set(w, r, actor)
	case r.URL.Path == "/api/v1/data" && r.Method == http.MethodDelete:
		s.delete(w, r, actor)
	case r.URL.Path == "/api/v1/data" && r.Method == http.MethodGet && r.URL.Query().Has("path"):
		s.find(w, r, actor)
	case r.URL.Path == "/api/v1/data" && r.Method == http.MethodGet:
		s.get(w, r, actor)
	case r.URL.Path == "/api/v2/permissions" && r.Method == http.MethodGet:
		s.findPermission(w, r, actor)
	case r.URL.Path == "/api/v2/permissions" && r.Method == http.MethodPost:
		s.addPermission(w, r, actor)
	case single && r.Method == http.MethodDelete:
		s.deletePermission(w, r, actor, permission)
	default:
		s.broken(w, r, "CredHub's API has no such request, or this imitation does not know it")
	}
}

// decode reads a body strictly.
func (s *Server) decode(w http.ResponseWriter, r *http.Request, v any) bool {
	if r.Header.Get("Content-Type") != "application/json" || r.URL.RawQuery != "" {
		s.broken(w, r, "it has the content type %q and the query %q", r.Header.Get("Content-Type"), r.URL.RawQuery)
		return false
	}
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil {
		s.broken(w, r, "%v", err)
		return false
	}
	return true
}

// only returns the values of exactly these parameters of the query.
func (s *Server) only(w http.ResponseWriter, r *http.Request, names ...string) ([]string, bool) {
	query := r.URL.Query()
	var values []string
	for _, name := range names {
		if len(query[name]) != 1 || query.Get(name) == "" {
			s.broken(w, r, "it lacks the parameter %s", name)
			return nil, false
		}
		values = append(values, query.Get(name))
	}
	if len(query) != len(names) {
		s.broken(w, r, "it has more parameters than %v", names)
		return nil, false
	}
	return values, true
}

func (s *Server) set(w http.ResponseWriter, r *http.Request, actor string) {
	var q struct {
		Name  string         `json:"name"`
		Type  string         `json:"type"`
		Value map[string]any `json:"value"` // of the type json, the only one here
	}
	if !s.decode(w, r, &q) {
		return
	}
	encoded, _ := json.Marshal(q.Value)
	switch {
	case !nameForm.MatchString(q.Name) || len(q.Name) > longestName:
		s.broken(w, r, "%q is no name", q.Name)
	case q.Type != "json" || q.Value == nil:
		s.broken(w, r, "it has the type %q, or no value", q.Type)
	case len(encoded) > largestValue:
		s.broken(w, r, "its value has %d bytes", len(encoded))
	case !s.may(actor, q.Name, "write"):
		refuse(w, http.StatusForbidden, noCredential)
	default:
		s.credentials[q.Name] = q.Value
		respond(w, http.StatusOK, map[string]any{"id": uuid.NewString(), "name": q.Name, "type": q.Type, "value": q.Value,
			"metadata": nil, "version_created_at": time.Now().UTC().Format(time.RFC3339)})
	}
}

func (s *Server) get(w http.ResponseWriter, r *http.Request, actor string) {
	values, ok := s.only(w, r, "name", "current")
	switch {
	case !ok:
	case values[1] != "true":
		s.broken(w, r, "it asks for other versions")
	case s.credentials[values[0]] == nil || !s.may(actor, values[0], "read"):
		refuse(w, http.StatusNotFound, noCredential)
	default:
		respond(w, http.StatusOK, map[string]any{"data": []any{map[string]any{"id": uuid.NewString(), "name": values[0],
			"type": "json", "value": s.credentials[values[0]], "metadata": nil,
			"version_created_at": time.Now().UTC().Format(time.RFC3339)}}})
	}
}

func (s *Server) delete(w http.ResponseWriter, r *http.Request, actor string) {
	values, ok := s.only(w, r, "name")
	if !ok {
		return
	}
	_, found := s.credentials[values[0]]
	if !found || !s.may(actor, values[0], "delete") {
		refuse(w, http.StatusNotFound, noCredential)
		return
	}
	delete(s.credentials, values[0]) // permissions stay
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) find(w http.ResponseWriter, r *http.Request, actor string) {
	values, ok := s.only(w, r, "path")
	if !ok {
		return
	}
	found := []map[string]string{}
	for name := range s.credentials {
		if strings.HasPrefix(name, strings.TrimSuffix(values[0], "/")+"/") && s.may(actor, name, "read") {
			found = append(found, map[string]string{"name": name, "version_created_at": time.Now().UTC().Format(time.RFC3339)})
		}
	}
	respond(w, http.StatusOK, map[string]any{"credentials": found})
}

func (s *Server) findPermission(w http.ResponseWriter, r *http.Request, actor string) {
	values, ok := s.only(w, r, "path", "actor")
	if !ok {
		return
	}
	n := s.permissionOf(values[0], values[1])
	if n < 0 || !s.may(actor, values[0], "read_acl") {
		refuse(w, http.StatusNotFound, noPermission)
		return
	}
	respond(w, http.StatusOK, s.permissions[n])
}

func (s *Server) permissionOf(path, actor string) int {
	return slices.IndexFunc(s.permissions, func(p Permission) bool { return p.Path == path && p.Actor == actor })
}

func (s *Server) addPermission(w http.ResponseWriter, r *http.Request, actor string) {
	var p struct {
		Path       string   `json:"path"`
		Actor      string   `json:"actor"`
		Operations []string `json:"operations"`
	}
	if !s.decode(w, r, &p) {
		return
	}
	unknown := slices.ContainsFunc(p.Operations, func(o string) bool { return !slices.Contains(operations, o) })
	switch {
	case !pathForm.MatchString(p.Path) || p.Actor == "" || p.Actor == actor || len(p.Operations) == 0 || unknown:
		s.broken(w, r, "%+v is no permission", p)
	case !s.may(actor, p.Path, "write_acl"):
		refuse(w, http.StatusNotFound, noCredential)
	case s.permissionOf(p.Path, p.Actor) >= 0:
		refuse(w, http.StatusConflict, "A permission entry for this actor and path already exists.")
	default:
		added := Permission{Path: p.Path, Actor: p.Actor, Operations: p.Operations, UUID: uuid.NewString()}
		s.permissions = append(s.permissions, added)
		respond(w, http.StatusCreated, added)
	}
}

func (s *Server) deletePermission(w http.ResponseWriter, r *http.Request, actor, id string) {
	if uuid.Validate(id) != nil || r.URL.RawQuery != "" {
		s.broken(w, r, "%q is no UUID, or there is a query", id)
		return
	}
	n := slices.IndexFunc(s.permissions, func(p Permission) bool { return p.UUID == id })
	if n < 0 || !s.may(actor, s.permissions[n].Path, "write_acl") {
		refuse(w, http.StatusNotFound, "The request includes a permission that does not exist.")
		return
	}
	deleted := s.permissions[n]
	s.permissions = slices.Delete(s.permissions, n, n+1)
	respond(w, http.StatusOK, deleted)
}
