package cluster

import (
	"context"
	"log"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher/mysqld"
)

// ProgramsVar names the directory with the programs of `make kubernetes-programs`.
const ProgramsVar = "KUBERNETES_PROGRAMS"

// controllers are those that objects without a node need.
const controllers = "garbage-collector-controller,namespace-controller,persistentvolume-binder-controller," +
	"persistentvolumeclaim-protection-controller,resourcequota-controller,serviceaccount-controller," +
	"statefulset-controller"

// Shared is one cluster for all tests of a package, which use namespaces of their own.
type Shared struct {
	once sync.Once
	dir  string
	err  error

	*Cluster
	Node Node // of Start
}

// Start attaches to the cluster with a node that DirVar names. The test is skipped where there is none: `make
// kubernetes` starts one.
func (s *Shared) Start(t *testing.T) {
	t.Helper()
	dir := os.Getenv(DirVar)
	if dir == "" {
		t.Skip("there is no Kubernetes node: make kubernetes")
	}
	s.once.Do(func() { s.Cluster, s.Node, s.err = attach(dir) })
	require.NoError(t, s.err)
}

// StartAPI starts a control plane without a node, so that pods wait for one. It is for tests of objects. Where its
// programs were not built, the test is skipped.
func (s *Shared) StartAPI(t *testing.T) {
	t.Helper()
	programs := os.Getenv(ProgramsVar)
	if _, err := os.Stat(filepath.Join(programs, "kube-controller-manager.versions")); programs == "" || err != nil {
		t.Skip("the programs of Kubernetes were not built: make kubernetes-programs")
	}
	s.once.Do(func() {
		if s.dir, s.err = os.MkdirTemp("", "kubernetes"); s.err == nil {
			s.Cluster, s.err = Start(context.Background(), Config{Programs: programs, Dir: s.dir, Logf: log.Printf,
				Controllers: controllers})
		}
	})
	require.NoError(t, s.err)
}

// Close stops what StartAPI has started.
func (s *Shared) Close() error {
	if s.Cluster != nil {
		s.Stop()
	}
	if s.dir == "" {
		return nil
	}
	return os.RemoveAll(s.dir)
}

// Binaries are the mysqld that the node has images of.
var Binaries = sync.OnceValue(func() []mysqld.Binary {
	return mysqld.FindBinaries(filepath.SplitList(os.Getenv("MYSQLD"))...)
})

// ImageName is that of an image of a mysqld of this host, made as deploy/mysqld-image says.
func ImageName(b mysqld.Binary) string { return "test/" + b.Flavour + ":" + strings.ToLower(b.Version) }

// OfficialImage is that of an image which has no data directory ready.
func OfficialImage(b mysqld.Binary) string {
	return "official/" + b.Flavour + ":" + strings.ToLower(b.Version)
}
