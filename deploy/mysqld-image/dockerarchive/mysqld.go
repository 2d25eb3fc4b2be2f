package dockerarchive

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	mysqldimage "mysql-broker/deploy/mysqld-image"
)

// Mysqld is an installed server that an image is made of.
type Mysqld struct {
	Flavour string // mysql or mariadb
	Program string // path of mysqld or mariadbd
	BaseDir string // the root of its installation
}

// What initialise.sh, the pods and mariadb-install-db run.
var tools = []string{"sh", "env", "cp", "mv", "rm", "mkdir", "chmod", "chown", "touch", "sync", "ls", "cat", "sed",
	"tr", "grep", "sort", "id", "uname", "dirname", "basename", "sleep"}

// user runs the servers, as it does in the official images.
const user = 999

// WriteMysqld writes an archive of two images of a server: withData has a data directory to copy, as the Dockerfile
// makes it, and plain has none, like the official images. It makes the directory in the image's root, so it needs root.
func WriteMysqld(path string, m Mysqld, withData, plain string) error {
	dir, err := os.MkdirTemp(filepath.Dir(path), "image")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	root, data := filepath.Join(dir, "root"), filepath.Join(dir, "data")
	if err := m.makeRoot(root); err != nil {
		return err
	}
	if err := m.initialise(root); err != nil {
		return err
	}
	// The data directory is a layer of its own.
	to := filepath.Join(data, mysqldimage.DataDir)
	if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755),
		os.Rename(filepath.Join(root, mysqldimage.DataDir), to)); err != nil {
		return err
	}
	image := Image{Name: plain, User: fmt.Sprintf("%d:%d", user, user), Entrypoint: []string{m.Program},
		Env: []string{m.path()}, Layers: []string{root}}
	ours := image
	ours.Name, ours.Layers = withData, []string{root, data}
	return Write(path, image, ours)
}

// path is the environment variable by which a command finds the server's programs.
func (m Mysqld) path() string {
	return "PATH=" + filepath.Join(m.BaseDir, "bin") + ":/usr/sbin:/usr/bin:/sbin:/bin"
}

func (m Mysqld) makeRoot(root string) error {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	if err := MakeRoot(root, append(tools, m.Program)...); err != nil {
		return err
	}
	if m.BaseDir != "/usr" { // a tree that holds all of it
		return CopyTree(root, m.BaseDir)
	}
	// Debian's packages. Upgrades need the client and its companions; official images have them too.
	if err := MakeRoot(root, "mariadb-install-db", "my_print_defaults", "resolveip", "mariadb", "mariadb-check",
		"mariadb-upgrade"); err != nil {
		return err
	}
	return CopyTree(root, "/usr/share/mysql") // error messages, and the SQL of a new data directory
}

// initialise does in the image's root what the Dockerfile does in a container.
func (m Mysqld) initialise(root string) error {
	script := filepath.Join(root, "initialise.sh")
	share := filepath.Join(root, filepath.Dir(mysqldimage.DataDir))
	if err := errors.Join(os.WriteFile(script, mysqldimage.Initialise, 0o644), os.MkdirAll(share, 0o755),
		os.Chown(share, user, user)); err != nil {
		return err
	}
	defer os.Remove(script)
	null := filepath.Join(root, "dev/null") // an image has no devices, and the scripts need this one
	if err := syscall.Mknod(null, syscall.S_IFCHR|0o666, 1<<8|3); err != nil {
		return fmt.Errorf("make /dev/null: %w", err)
	}
	if err := os.Chmod(null, 0o666); err != nil {
		return err
	}
	defer os.Remove(null)
	cmd := exec.Command("/bin/sh", "-euc", `sh /initialise.sh "$0" "$1" /tmp; chmod -R a+rX "$1"`, m.Flavour,
		mysqldimage.DataDir)
	cmd.Dir, cmd.Env = "/", []string{m.path(), "HOME=/"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: user, Gid: user}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("initialise %s: %w: %s", m.Program, err, strings.TrimSpace(string(out)))
	}
	return nil
}
