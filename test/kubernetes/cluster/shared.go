package cluster

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	mysqldimage "mysql-broker/deploy/mysqld-image"
	"mysql-broker/provisioner/launcher/mysqld"
)

// ProgramsVar names the directory with the programs; RequireVar makes tests fail that would be skipped without them.
const (
	ProgramsVar = "KUBERNETES_PROGRAMS"
	RequireVar  = "REQUIRE_KUBERNETES"
)

// nodeMemoryMB is enough for all servers that tests run at the same time.
const nodeMemoryMB = 32 << 10

// controllers are those that servers and namespaces need. The played node does without the addresses behind Services.
const controllers = "garbage-collector-controller,namespace-controller,node-lifecycle-controller," +
	"persistentvolume-binder-controller,persistentvolume-expander-controller,persistentvolume-protection-controller," +
	"persistentvolumeclaim-protection-controller,pod-garbage-collector-controller,resourcequota-controller," +
	"serviceaccount-controller,statefulset-controller,taint-eviction-controller"

// Shared is one cluster with a node for all tests of a package, which use namespaces of their own: a control plane with a
// played node, or the cluster with a real one that DirVar names.
type Shared struct {
	once sync.Once
	dir  string
	err  error

	*Cluster
	Node Machine
}

// Start starts the cluster for the first test that needs it. Where its programs were not built, the test is skipped.
func (s *Shared) Start(t *testing.T) {
	t.Helper()
	if dir := os.Getenv(DirVar); dir != "" {
		s.once.Do(func() { s.Cluster, s.Node, s.err = attach(dir) })
		if s.err != nil {
			t.Fatal(s.err)
		}
		return
	}
	programs := os.Getenv(ProgramsVar)
	if _, err := os.Stat(filepath.Join(programs, "kube-controller-manager.versions")); programs == "" || err != nil {
		if os.Getenv(RequireVar) != "" {
			t.Fatalf("%s names no directory with the programs of `make kubernetes-programs`", ProgramsVar)
		}
		t.Skip("the programs of Kubernetes were not built: make kubernetes-programs")
	}
	s.once.Do(func() { s.err = s.Open(programs, log.Printf) })
	if s.err != nil {
		t.Fatal(s.err)
	}
}

// Open starts the cluster, with an image of each of Binaries.
func (s *Shared) Open(programs string, logf func(string, ...any)) (err error) {
	if s.dir, err = os.MkdirTemp("", "kubernetes"); err != nil {
		return err
	}
	if err := os.Chmod(s.dir, 0o755); err != nil { // mysqld passes through as another user
		return err
	}
	if s.Cluster, err = Start(context.Background(), Config{Programs: programs, Dir: s.dir, Logf: logf,
		Controllers: controllers}); err != nil {
		return err
	}
	images := map[string]Image{}
	for _, b := range Binaries() {
		image := Image{Path: filepath.Join(b.BaseDir, "bin") + ":/usr/sbin:/usr/bin:/sbin:/bin"}
		images[OfficialImage(b)] = image
		dir := filepath.Join(s.dir, b.Flavour+"-"+b.Version)
		image.Make = sync.OnceValue(func() error { return initialise(dir, b, image) })
		image.Dirs = map[string]string{mysqldimage.DataDir: filepath.Join(dir, "data")}
		images[ImageName(b)] = image
	}
	pid := os.Getpid() // two clusters have other addresses, as they may choose the same ports
	s.Node, err = s.Play(context.Background(), NodeConfig{Images: images, MemoryMB: nodeMemoryMB,
		Address: fmt.Sprintf("127.%d.%d.1", 64+pid>>8%64, pid%256)})
	return err
}

// Close stops what Open has started.
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

// initialise does in a container what the Dockerfile of deploy/mysqld-image does.
func initialise(dir string, b mysqld.Binary, image Image) error {
	for _, name := range []string{"", "tmp", "script"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return err
		}
	}
	if err := errors.Join(os.Chmod(dir, 0o777), os.Chmod(filepath.Join(dir, "tmp"), 0o777),
		os.WriteFile(filepath.Join(dir, "script", "initialise.sh"), mysqldimage.Initialise, 0o644)); err != nil {
		return err
	}
	const user = 999
	c, err := startContainer(containerConfig{Dir: filepath.Join(dir, "container"), Path: image.Path,
		User: user, Group: user, ExtraGroup: user, Mounts: map[string]string{"/image": dir,
			"/script": filepath.Join(dir, "script"), "/tmp": filepath.Join(dir, "tmp")},
		Command: []string{"/bin/sh", "-euc",
			`sh /script/initialise.sh "$0" /image/data /tmp; chmod -R a+rX /image/data`, b.Flavour}})
	if err != nil {
		return err
	}
	if code := c.wait(context.Background(), nil); code != 0 {
		return fmt.Errorf("initialise %s: exit code %d: %s", b.Path, code, c.terminated()["message"])
	}
	return nil
}
