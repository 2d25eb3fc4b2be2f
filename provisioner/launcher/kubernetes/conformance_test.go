package kubernetes_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes"
	"mysql-broker/provisioner/launcher/kubernetes/api"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/kubernetes/cluster"
	"mysql-broker/test/launchertest"
	"mysql-broker/test/logged"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// shared is the cluster of tests of servers; objects is one without a node, for tests of objects.
var shared, objects cluster.Shared

func TestMain(m *testing.M) { servers.Main(m, objects.Close) }

// The launcher keeps what launcher.Launcher promises, with a real control plane and real servers of each flavour.
func TestConformance(t *testing.T) {
	eachImage(t, func(t *testing.T, image kubernetes.Image) {
		launchertest.Run(t, func(t *testing.T) launchertest.Place {
			p := newPlace(t, image)
			return launchertest.Place{
				MemoryMB: [2]int{256, 1024},
				Open:     p.open,
				Supervise: func(t *testing.T, options launcher.Options) launcher.Launcher {
					supervised := *p
					options.Logger = p.cfg.Logger
					supervised.cfg.Options, supervised.cfg.RenewInterval = options, 100*time.Millisecond
					return supervised.open(t)
				},
				Fill:     p.fill,
				Readable: p.readable,
			}
		})
	})
}

// eachImage runs fn as a parallel subtest with an image of each mysqld that there is.
func eachImage(t *testing.T, fn func(t *testing.T, image kubernetes.Image)) {
	t.Parallel()
	shared.Start(t)
	require.NotEmpty(t, cluster.Binaries(), "no mysqld is installed")
	for _, b := range servers.Chosen(t, cluster.Binaries()) {
		t.Run(b.Flavour+"-"+b.Version, func(t *testing.T) {
			t.Parallel()
			fn(t, kubernetes.Image{Flavour: b.Flavour, Version: b.Version, Name: cluster.ImageName(b)})
		})
	}
}

// place is a namespace with the configuration of a launcher.
type place struct {
	cluster.Namespace
	cfg kubernetes.Config
	log *logged.Text
}

// newPlace makes a namespace on the node, in which a broker may do what deploy/kubernetes/launcher lets it.
func newPlace(t *testing.T, image kubernetes.Image) *place {
	p := placeIn(t, &shared, image)
	p.cfg.Service, p.cfg.Host = kubernetes.NodePort, shared.Node.Address()
	return p
}

// newObjects makes a place without a node. Its servers can be upgraded to the later version.
func newObjects(t *testing.T) *place {
	objects.StartAPI(t)
	return placeIn(t, &objects, kubernetes.Image{Flavour: mysqld.MariaDB, Version: "11.8", Name: "test/mariadb"},
		kubernetes.Image{Flavour: mysqld.MariaDB, Version: laterVersion, Name: "test/later"})
}

const laterVersion = "12.0"

func placeIn(t *testing.T, c *cluster.Shared, images ...kubernetes.Image) *place {
	p := &place{Namespace: c.NewNamespace(t), log: &logged.Text{}}
	p.cfg = kubernetes.Config{Namespace: p.Name, Images: images, User: 999,
		Credentials: api.Credentials{URL: c.URL, CA: c.CA, Token: p.Token},
		Options:     launcher.Options{Logger: slog.New(slog.NewTextHandler(p.log, nil))}}
	return p
}

func (p *place) open(t *testing.T) launcher.Launcher { return open(t, p.cfg) }

// fill gives the namespace a quota that one server uses up, and returns once that counts it.
func (p *place) fill(t *testing.T) {
	p.Do(t, http.MethodPost, p.Path("resourcequotas"), map[string]any{"apiVersion": "v1", "kind": "ResourceQuota",
		"metadata": map[string]string{"name": "full"},
		"spec":     map[string]any{"hard": map[string]string{"requests.memory": "300Mi"}}}, nil)
	testdrive.Eventually(t, "the quota", func() bool {
		return p.get(t, p.Path("resourcequotas/full")).Status.Used["requests.memory"] == "256Mi"
	})
}

// object is what tests look at of an object of any kind.
type object struct {
	Metadata struct {
		Name, UID           string
		Annotations, Labels map[string]string
		OwnerReferences     []any
	}
	Data map[string][]byte // of a Secret
	Spec struct {
		Resources  resources // of a claim
		Containers []struct {
			Name      string
			Resources resources
		}
		Template struct {
			Spec struct{ Containers []map[string]any }
		}
	}
	Status struct {
		Replicas       int               // of a StatefulSet
		Used, Capacity map[string]string // of a quota, of a claim
	}
}

type resources struct{ Requests, Limits map[string]string }

func (p *place) get(t *testing.T, path string) (o object) {
	p.Do(t, http.MethodGet, path, nil, &o)
	return o
}

func (p *place) list(t *testing.T, path string) []object {
	var all struct{ Items []object }
	p.Do(t, http.MethodGet, path, nil, &all)
	return all.Items
}

// text is the JSON of an object, or of a list.
func (p *place) text(t *testing.T, path string) string {
	var text json.RawMessage
	p.Do(t, http.MethodGet, path, nil, &text)
	return string(text)
}

// readable is what the broker logged, what containers printed and were started with, and all objects but the Secrets.
func (p *place) readable(t *testing.T) string {
	all := p.log.String() + shared.Node.Logs(p.Name)
	for _, path := range []string{p.Path("pods"), p.Path("services"), p.Path("persistentvolumeclaims"), p.Path("events"),
		"/apis/apps/v1/namespaces/" + p.Name + "/statefulsets",
		"/apis/apps/v1/namespaces/" + p.Name + "/controllerrevisions"} {
		all += p.text(t, path)
	}
	return all
}
