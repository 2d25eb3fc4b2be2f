package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"mysql-broker/deploy/mysqld-image/dockerarchive"
	"mysql-broker/provisioner/launcher/mysqld"
)

// AddedDir is where containers of an added image see the tree of its program.
const AddedDir = "/usr/local/share/added"

// dockerHub is where pods look for images whose names have no other host.
const dockerHub = "docker.io/"

// AddImage adds an image to those that pods can have: one that is there, base, with the tree of a program at AddedDir.
// The program comes first in $PATH. The image's name begins with the prefix; no other image has it.
func (n Node) AddImage(ctx context.Context, prefix, base string, b mysqld.Binary) (name string, err error) {
	dir, err := os.MkdirTemp(n.c.cfg.Dir, "added")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	root, layer, archive := filepath.Join(dir, "root"), filepath.Join(dir, "layer"), filepath.Join(dir, "archive.tar")
	if err := errors.Join(os.Mkdir(root, 0o755), addedLayer(ctx, layer, b)); err != nil {
		return "", err
	}
	if _, err := n.c.Containerd(ctx, "image", "mount", dockerHub+base, root); err != nil {
		return "", err
	}
	defer func() {
		_, unmounted := n.c.Containerd(context.WithoutCancel(ctx), "image", "unmount", "--rm", root)
		err = errors.Join(err, unmounted)
	}()
	name = prefix + "-" + strings.ToLower(rand.Text()) + "/" + base // tests that run at once add images for one purpose
	image := dockerarchive.Image{Name: dockerHub + name, User: "999:999", Layers: []string{root, layer},
		Env: []string{"PATH=" + AddedDir + "/bin:/usr/sbin:/usr/bin:/sbin:/bin"}}
	if err := dockerarchive.Write(archive, image); err != nil {
		return "", err
	}
	_, err = n.c.Containerd(ctx, "image", "import", archive)
	return name, err
}

// addedLayer makes a directory with the tree of a program. Programs of Debian unstable name their libraries by the paths
// on this host, so there is a link.
func addedLayer(ctx context.Context, dir string, b mysqld.Binary) error {
	tree, home := filepath.Join(dir, AddedDir), filepath.Join(dir, b.BaseDir)
	if err := errors.Join(os.MkdirAll(filepath.Dir(tree), 0o755), os.MkdirAll(filepath.Dir(home), 0o755),
		os.Symlink(AddedDir, home)); err != nil {
		return err
	}
	_, err := output(ctx, "cp", "-aT", b.BaseDir, tree)
	return err
}

// output is what a command prints.
func output(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var printed bytes.Buffer
	cmd.Stderr = &printed
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, printed.String())
	}
	return out, nil
}
