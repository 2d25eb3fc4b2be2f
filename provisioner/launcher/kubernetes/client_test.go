package kubernetes_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/certificate"
	"mysql-broker/provisioner/launcher/kubernetes"
	"mysql-broker/provisioner/launcher/kubernetes/api"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/logged"
	"mysql-broker/test/testdrive"
)

// apiServer answers as a test says. What real ones answer is in the other tests.
func apiServer(t *testing.T, answer http.HandlerFunc) kubernetes.Config {
	server := httptest.NewUnstartedServer(answer)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return kubernetes.Config{Namespace: "servers", Images: []kubernetes.Image{{Flavour: mysqld.MySQL, Version: "9.7",
		Name: "mysql:9.7"}}, Credentials: api.Credentials{URL: server.URL, CA: ca, Token: "token"}}
}

func open(t *testing.T, cfg kubernetes.Config) *kubernetes.Launcher {
	l, err := kubernetes.New(cfg)
	require.NoError(t, err)
	t.Cleanup(l.Close)
	return l
}

func refuse(w http.ResponseWriter, code int, reason, message string) {
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind": "Status", "reason": %q, "message": %q}`, reason, message)
}

// The launcher distinguishes the refusals of the API server by the messages of Kubernetes 1.36.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		code            int
		reason, message string
		noRoom, giveUp  bool
	}{
		{403, "Forbidden", `persistentvolumeclaims "d-1" is forbidden: exceeded quota: servers, requested: ` +
			`requests.storage=1Gi, used: requests.storage=10Gi, limited: requests.storage=10Gi`, true, true},
		{403, "Forbidden", `User "broker" cannot create resource "secrets" in API group "" in the namespace "servers"`,
			false, true},
		{403, "Forbidden", `unable to create new content in namespace servers because it is being terminated`, false, true},
		{401, "Unauthorized", "Unauthorized", false, true},
		{404, "NotFound", `namespaces "servers" not found`, false, true},
		{422, "Invalid", "metadata.name: Invalid value", false, true},
		{429, "TooManyRequests", "please try again later", false, false},
		{503, "ServiceUnavailable", "etcd is not there", false, false},
	} {
		t.Run(fmt.Sprint(test.code, " ", test.message), func(t *testing.T) {
			t.Parallel()
			l := open(t, apiServer(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					refuse(w, 404, "NotFound", "not found")
					return
				}
				refuse(w, test.code, test.reason, test.message)
			}))
			_, err := l.Launch(t.Context(), newSpec(), func(string) {})
			assert.ErrorContains(t, err, test.message)
			assert.Equal(t, test.noRoom, errors.Is(err, launcher.ErrNoRoom))
			e, known := errors.AsType[*launcher.Error](err)
			assert.Equal(t, test.giveUp, known && e.Action == launcher.GiveUp, "%v", err)
		})
	}
}

// The client repeats a request that the API server cannot serve at the moment, or whose response breaks off.
func TestBusyServer(t *testing.T) {
	t.Parallel()
	for _, code := range []int{http.StatusOK, 429, 500, 502, 503, 504} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			l := open(t, apiServer(t, func(w http.ResponseWriter, _ *http.Request) {
				if asked.Add(1) <= 2 {
					if code == http.StatusOK {
						w.Header().Set("Content-Length", "1000")
						fmt.Fprint(w, `{"items": [`)
						return
					}
					refuse(w, code, "", "not now")
					return
				}
				fmt.Fprint(w, `{"items": [{"metadata": {"labels": {"mysql-broker/server": "d_1"}}}]}`)
			}))
			ids, err := l.List(t.Context())
			assert.NoError(t, err)
			assert.Equal(t, []string{"d_1"}, ids)
		})
	}
}

// If the time for a request is over because the API server could not serve it, the error says why it could not, and why
// the time is over.
func TestServerBusyForTooLong(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	stopping := errors.New("the broker is stopping")
	var asked atomic.Int32
	l := open(t, apiServer(t, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) > 1 {
			cancel(stopping)
			<-r.Context().Done()
			return
		}
		refuse(w, http.StatusInternalServerError, "InternalError", `failed calling webhook "guard.example.com"`)
	}))
	_, err := l.List(ctx)
	assert.ErrorContains(t, err, `failed calling webhook "guard.example.com"`)
	assert.ErrorIs(t, err, stopping)
}

// A failed request is not reported as an empty namespace.
func TestCannotAsk(t *testing.T) {
	t.Parallel()
	l := open(t, apiServer(t, func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, 403, "Forbidden", `User "broker" cannot list resource "secrets"`)
	}))
	_, errEndpoint := l.Endpoint(t.Context(), "d_1")
	_, errList := l.List(t.Context())
	_, errNote := l.ReadNote(t.Context(), "mark")
	for _, err := range []error{errEndpoint, errList, errNote, l.Keep(t.Context(), "d_1"), l.Destroy(t.Context(), "d_1")} {
		assert.ErrorContains(t, err, "cannot list resource")
		assert.NotErrorIs(t, err, launcher.ErrNotFound)
	}
}

// Lists come in pages.
func TestPages(t *testing.T) {
	t.Parallel()
	l := open(t, apiServer(t, func(w http.ResponseWriter, r *http.Request) {
		assert.NotEmpty(t, r.URL.Query().Get("limit"))
		assert.Contains(t, r.Header.Get("Accept"), "PartialObjectMetadataList")
		next := map[string]string{"": "two", "two": "three", "three": ""}[r.URL.Query().Get("continue")]
		fmt.Fprintf(w, `{"metadata": {"continue": %q}, "items": [{"metadata": {"labels": {"mysql-broker/server": "d_%s"}}}]}`,
			next, next)
	}))
	ids, err := l.List(t.Context())
	assert.NoError(t, err)
	assert.Equal(t, []string{"d_two", "d_three", "d_"}, ids)
}

// A launcher that supervises lists the pods once and then watches them; asking it causes no request. Troubles stay, and are
// logged once, even if each watch fails and begins with a new list. If lists have failed for long too, it reports that
// instead of its last state.
func TestAskingCausesNoRequest(t *testing.T) {
	t.Parallel()
	var lists atomic.Int32
	var down atomic.Bool
	cut := make(chan struct{})
	cfg := apiServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/secrets"):
			fmt.Fprint(w, `{"items": [{"metadata": {"labels": {"mysql-broker/server": "d_2"}, "annotations": {
				"mysql-broker/state": "{\"phase\": \"ready\"}"}}}]}`)
		case !strings.HasSuffix(r.URL.Path, "/pods"):
			fmt.Fprint(w, `{"status": {"allowed": true}}`)
		case down.Load():
			refuse(w, 403, "Forbidden", `User "broker" cannot list resource "pods"`)
		case r.URL.Query().Get("watch") == "":
			lists.Add(1)
			fmt.Fprint(w, `{"metadata": {"resourceVersion": "1"}, "items": [{"metadata": {"name": "d-1-0",
				"labels": {"mysql-broker/server": "d_1"}}, "status": {"conditions": [{"type": "PodScheduled", "status": "False"}]}}]}`)
		default:
			w.(http.Flusher).Flush()
			select {
			case <-cut:
			case <-r.Context().Done():
			}
			fmt.Fprint(w, `{"type": "ERROR", "object": {"kind": "Status", "metadata": {}, "status": "Failure", "reason": "Expired",
				"message": "too old resource version: 1 (2)", "code": 410}}`)
		}
	})
	var log logged.Text
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	cfg.Supervise, cfg.WatchPause = true, 50*time.Millisecond
	l := open(t, cfg)
	for range 100 {
		all, err := l.Troubles(t.Context())
		require.True(t, err == nil && all["d_1"] == launcher.NoNode, "there are %v, %v", all, err)
	}
	inTrouble := func() bool {
		all, err := l.Troubles(t.Context())
		return err == nil && all["d_1"] == launcher.NoNode && all["d_2"] == launcher.NoPod
	}
	logged := func() int { return strings.Count(log.String(), "a server is in trouble") }
	assert.EqualValues(t, 1, lists.Load(), "lists")
	close(cut)
	testdrive.Eventually(t, "both troubles in the log", func() bool { return logged() == 2 })
	seen := lists.Load()
	testdrive.Eventually(t, "more lists", func() bool { return lists.Load() > seen+3 })
	assert.True(t, inTrouble(), "troubles, after more lists")
	assert.Equal(t, 2, logged(), "lines of %s", log.String())
	assert.Contains(t, log.String(), "server=d_2 reason=no-pod")
	assert.Contains(t, log.String(), "too old resource version: 1 (2)", "why a watch fails")
	assert.NotContains(t, log.String(), "410")
	down.Store(true)
	testdrive.Eventually(t, "the launcher to say that it sees nothing", func() bool {
		_, err := l.Troubles(t.Context())
		return err != nil && strings.Contains(err.Error(), "cannot list resource")
	})
	down.Store(false)
	testdrive.Eventually(t, "the launcher to see again", inTrouble)
}

// A token that was replaced in its file is read again when the old one is refused, and so is the CA when the API server
// has a certificate of another one.
func TestFilesThatAreReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string, text []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	var valid atomic.Value
	var presents atomic.Pointer[tls.Config]
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != valid.Load() {
			refuse(w, 401, "Unauthorized", "Unauthorized")
			return
		}
		fmt.Fprint(w, `{}`)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of clients that trust another CA
	server.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return presents.Load(), nil
	}}
	renew := func() (ca []byte) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		issuer, leaf, err := certificate.New("api", key, "127.0.0.1")
		require.NoError(t, err)
		presents.Store(&tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{leaf}, PrivateKey: key}}})
		server.CloseClientConnections()
		return certificate.PEM("CERTIFICATE", issuer)
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	write("ca.crt", renew())
	replaceToken := func(token string) {
		write("token", []byte(token))
		valid.Store("Bearer " + strings.TrimSpace(token))
	}
	replaceToken("first\n")
	cfg := kubernetes.Config{Namespace: "servers", Credentials: api.Credentials{URL: server.URL,
		CAFile: filepath.Join(dir, "ca.crt"), TokenFile: filepath.Join(dir, "token")}}
	l := open(t, cfg)
	list := func() error {
		_, err := l.List(t.Context())
		return err
	}
	assert.NoError(t, list(), "with the first CA and token")
	replaceToken("second\n")
	assert.NoError(t, list(), "with the second token")
	next := renew()
	assert.ErrorContains(t, list(), "certificate signed by unknown authority")
	write("ca.crt", next)
	assert.NoError(t, list(), "with the second CA")
	write("ca.crt", renew())
	replaceToken("third")
	assert.NoError(t, list(), "with the third CA and token")
	next = renew()
	for _, partly := range []string{"", string(next[:len(next)/2])} {
		write("ca.crt", []byte(partly))
		_, err := kubernetes.New(cfg)
		assert.ErrorContains(t, err, "the API server's CA: it is not PEM")
		assert.ErrorContains(t, list(), "certificate signed by unknown authority")
	}
	write("ca.crt", next)
	assert.NoError(t, list(), "with the fourth CA")
	valid.Store("Bearer fourth")
	err := list()
	assert.False(t, err == nil || strings.Contains(err.Error(), "third"), "with a token that is refused: %v", err)
}

func TestKubeconfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	const config = `apiVersion: v1
kind: Config
current-context: %s
clusters:
- {name: other, cluster: {server: "https://other.example.com"}}
- {name: here, cluster: {server: "https://here.example.com", certificate-authority: /old, certificate-authority-data: Q0E=}}
users:
- {name: broker, user: {token: t0ken}}
- {name: cloud, user: {exec: {command: login}}}
contexts:
- {name: one, context: {cluster: here, user: broker}}
- {name: two, context: {cluster: here, user: cloud}}
`
	c, err := api.ReadKubeconfig(write("one", fmt.Sprintf(config, "one")))
	assert.NoError(t, err)
	assert.Equal(t, api.Credentials{URL: "https://here.example.com", CA: []byte("CA"), Token: "t0ken"}, c)
	for _, path := range []string{write("two", fmt.Sprintf(config, "two")), write("three", fmt.Sprintf(config, "three")),
		write("broken", "token: [t0ken"), filepath.Join(dir, "none")} {
		_, err = api.ReadKubeconfig(path)
		assert.False(t, err == nil || strings.Contains(err.Error(), "t0ken"), "%s: %v", path, err)
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	good := apiServer(t, func(http.ResponseWriter, *http.Request) {})
	for name, change := range map[string]func(*kubernetes.Config){
		"plain HTTP":       func(c *kubernetes.Config) { c.Credentials.URL = "http://api.example.com" },
		"no token":         func(c *kubernetes.Config) { c.Credentials.Token = "" },
		"CA that is not":   func(c *kubernetes.Config) { c.Credentials.CA = []byte("CA") },
		"no file of a CA":  func(c *kubernetes.Config) { c.Credentials.CAFile = "/nowhere" },
		"no pod of theirs": func(c *kubernetes.Config) { c.Credentials = api.Credentials{InCluster: true} },
	} {
		cfg := good
		change(&cfg)
		_, err := kubernetes.New(cfg)
		assert.Error(t, err, "%s: no error", name)
	}
	_, err := kubernetes.New(good)
	assert.NoError(t, err)
}
