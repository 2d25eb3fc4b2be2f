package kubernetes_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes"
	"mysql-broker/provisioner/launcher/launchertest"
	"mysql-broker/test/kubernetes/cluster"
	"mysql-broker/test/servers"
)

// shared is the control plane and the node of all tests.
var shared cluster.Shared

func TestMain(m *testing.M) {
	if status, ordered := launchertest.Child(openChild); ordered {
		os.Exit(status)
	}
	os.Exit(shared.Main(m))
}

// The launcher keeps what launcher.Launcher promises, with a real control plane and real servers of each flavour.
func TestConformance(t *testing.T) {
	eachImage(t, func(t *testing.T, image kubernetes.Image) {
		launchertest.Run(t, func(t *testing.T) launchertest.Place {
			p := newPlace(t, image)
			return launchertest.Place{
				Child:    p.child(t),
				MemoryMB: [2]int{256, 1024},
				Open:     p.open,
				Fill:     p.fill,
				Readable: p.readable,
			}
		})
	})
}

// childConfig is what another process needs to know of a place.
type childConfig struct {
	Credentials kubernetes.Credentials
	Namespace   string
	Images      []kubernetes.Image
	Service     kubernetes.Access
	Host        string
	User        int
}

func (p *place) child(t *testing.T) string {
	t.Helper()
	text, err := json.Marshal(childConfig{p.cfg.Credentials, p.cfg.Namespace, p.cfg.Images, p.cfg.Service, p.cfg.Host,
		p.cfg.User})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// openChild opens the launcher of another process's place.
func openChild(place string) (launcher.Launcher, error) {
	var c childConfig
	if err := json.Unmarshal([]byte(place), &c); err != nil {
		return nil, err
	}
	return kubernetes.New(kubernetes.Config{Credentials: c.Credentials, Namespace: c.Namespace, Images: c.Images,
		Service: c.Service, Host: c.Host, User: c.User})
}

// eachImage runs fn as a parallel subtest with an image of each mysqld that there is.
func eachImage(t *testing.T, fn func(t *testing.T, image kubernetes.Image)) {
	t.Helper()
	t.Parallel()
	shared.Start(t)
	if len(cluster.Binaries()) == 0 {
		t.Fatal("no mysqld is installed")
	}
	for _, b := range servers.Chosen(t, cluster.Binaries()) {
		t.Run(b.Flavour+"-"+b.Version, func(t *testing.T) {
			t.Parallel()
			fn(t, kubernetes.Image{Flavour: b.Flavour, Version: b.Version, Name: cluster.ImageName(b)})
		})
	}
}

// place is a namespace.
type place struct {
	namespace string
	cfg       kubernetes.Config
	log       *logText
}

// newPlace makes a namespace in which pods must be restricted, and a broker may do what deploy/kubernetes/launcher lets
// it.
func newPlace(t *testing.T, image kubernetes.Image) *place {
	t.Helper()
	p := &place{namespace: "test-" + strings.ToLower(rand.Text()), log: &logText{}}
	call(t, http.MethodPost, "/api/v1/namespaces", map[string]any{"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": p.namespace,
			"labels": map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}, nil)
	t.Cleanup(func() { p.remove(t) })
	p.cfg = kubernetes.Config{Credentials: p.broker(t), Namespace: p.namespace, Images: []kubernetes.Image{image},
		Service: kubernetes.NodePort, Host: shared.Node.Address(), User: 999,
		Options: launcher.Options{Logger: slog.New(slog.NewTextHandler(p.log, nil))}}
	return p
}

// broker makes a ServiceAccount that has the rights of deploy/kubernetes/launcher and no others.
func (p *place) broker(t *testing.T) kubernetes.Credentials {
	t.Helper()
	text, err := os.ReadFile("../../../deploy/kubernetes/launcher/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		group := "/apis/rbac.authorization.k8s.io/v1"
		if object["apiVersion"] == "v1" {
			group = "/api/v1"
		}
		call(t, http.MethodPost, group+"/namespaces/"+p.namespace+"/"+strings.ToLower(object["kind"].(string))+"s", object,
			nil)
	}
	var request struct{ Status struct{ Token string } }
	call(t, http.MethodPost, p.path("serviceaccounts/mysql-broker/token"), map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": map[string]any{}}, &request)
	return kubernetes.Credentials{URL: shared.URL, CA: shared.CA, Token: request.Status.Token}
}

func (p *place) path(kind string) string { return "/api/v1/namespaces/" + p.namespace + "/" + kind }

// remove deletes the namespace, and returns when no pod is left in it.
func (p *place) remove(t *testing.T) {
	t.Helper()
	call(t, http.MethodDelete, "/api/v1/namespaces/"+p.namespace, nil, nil)
	for {
		var there struct{ Items []any }
		call(t, http.MethodGet, p.path("pods"), nil, &there)
		if len(there.Items) == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (p *place) open(t *testing.T) launcher.Launcher {
	t.Helper()
	l, err := kubernetes.New(p.cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// fill gives the namespace a quota that what is there uses up.
func (p *place) fill(t *testing.T) {
	t.Helper()
	call(t, http.MethodPost, p.path("resourcequotas"), map[string]any{"apiVersion": "v1", "kind": "ResourceQuota",
		"metadata": map[string]string{"name": "full"},
		"spec":     map[string]any{"hard": map[string]string{"requests.memory": "300Mi"}}}, nil)
	for {
		var quota struct {
			Status struct{ Used map[string]string }
		}
		call(t, http.MethodGet, p.path("resourcequotas/full"), nil, &quota)
		if quota.Status.Used["requests.memory"] == "256Mi" {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// readable is what the broker logged, what containers printed and were started with, and all objects but the Secrets.
func (p *place) readable(t *testing.T) string {
	t.Helper()
	all := p.log.String() + shared.Node.Logs(p.namespace)
	for _, path := range []string{p.path("pods"), p.path("services"), p.path("persistentvolumeclaims"), p.path("events"),
		"/apis/apps/v1/namespaces/" + p.namespace + "/statefulsets",
		"/apis/apps/v1/namespaces/" + p.namespace + "/controllerrevisions"} {
		var objects json.RawMessage
		call(t, http.MethodGet, path, nil, &objects)
		all += string(objects)
	}
	return all
}

// call asks the API server, as an administrator of the cluster.
func call(t *testing.T, method, path string, body, into any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience) // t's ends before it is cleaned up
	defer cancel()
	status, answer, err := shared.Call(ctx, method, path, body)
	if err != nil || status >= 300 {
		t.Fatalf("%s %s: %d %s %v", method, path, status, answer, err)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(answer, into); err != nil {
		t.Fatal(err)
	}
}

type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
