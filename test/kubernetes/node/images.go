package node

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"mysql-broker/deploy/mysqld-image/dockerarchive"
	"mysql-broker/test/kubernetes/cluster"
)

// Images of the node, beside those of each mysqld: cluster.ImageName and cluster.OfficialImage.
const (
	BrokerImage = "localhost/mysql-broker:test"

	pauseImage = "localhost/pause:test"
)

// ImagesVar may name a directory that keeps the archives of mysqld for the next run.
const ImagesVar = "KUBERNETES_IMAGES"

// MakeImages writes archives of all images that pods find, which takes seconds for each mysqld, and returns their paths.
func MakeImages(dir string) (archives []string, err error) {
	pause := filepath.Join(dir, "pause")
	if err := build(filepath.Join(pause, "pause"), "./test/kubernetes/pause"); err != nil {
		return nil, err
	}
	broker := filepath.Join(dir, "broker")
	if err := makeBroker(broker); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "small.tar")
	archives = append(archives, path)
	if err := dockerarchive.Write(path,
		dockerarchive.Image{Name: pauseImage, Entrypoint: []string{"/pause"}, Layers: []string{pause}},
		dockerarchive.Image{Name: BrokerImage, User: "65532:65532", Entrypoint: []string{"/mysql-broker"},
			Layers: []string{broker}}); err != nil {
		return nil, err
	}
	kept := cmp.Or(os.Getenv(ImagesVar), dir)
	for _, b := range cluster.Binaries() {
		path := filepath.Join(kept, b.Flavour+"-"+b.Version+".tar")
		archives = append(archives, path)
		if _, err := os.Stat(path); err == nil {
			continue
		}
		m := dockerarchive.Mysqld{Flavour: b.Flavour, Program: b.Path, BaseDir: b.BaseDir}
		if err := dockerarchive.WriteMysqld(path, m, cluster.ImageName(b), cluster.OfficialImage(b)); err != nil {
			return nil, err
		}
	}
	return archives, nil
}

// makeBroker makes what deploy/container/Dockerfile does.
func makeBroker(dir string) error {
	if err := build(filepath.Join(dir, "mysql-broker"), "./cmd/mysql-broker"); err != nil {
		return err
	}
	for from, to := range map[string]string{"catalog.yml": "catalog.yml",
		"/etc/ssl/certs/ca-certificates.crt": "etc/ssl/certs/ca-certificates.crt"} {
		content, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		to = filepath.Join(dir, to)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, content, 0o644); err != nil {
			return err
		}
	}
	return os.Mkdir(filepath.Join(dir, "tmp"), 0o755)
}

// build makes a static program. It is run in the project's folder.
func build(path, from string) error {
	cmd := exec.Command("go", "build", "-o", path, from)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+runtime.GOARCH)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", from, err, out)
	}
	return nil
}
