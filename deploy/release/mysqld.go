package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// serverImage is the image of mysqld for dedicated servers on Kubernetes, for every architecture.
type serverImage struct {
	flavour, version string
	packages         []locked
	digest           string
}

func (i *serverImage) archive(r *release) string {
	return "mysql-broker-" + r.version + "-" + i.flavour + "-" + i.version + ".oci.tar"
}

// serverPrograms are those of a server's packages that pods and mariadb-install-db run, and clients to look with.
var serverPrograms = map[string]bool{"mysqld": true, "mysql": true, "mysqladmin": true, "mysqldump": true,
	"mariadbd": true, "mariadb": true, "mariadb-admin": true, "mariadb-dump": true, "mariadb-check": true,
	"mariadb-upgrade": true, "mariadb-install-db": true, "my_print_defaults": true, "resolveip": true}

// serverImages writes an OCI archive for each server of mysqld.lock, from packages that were fetched before. If some
// were not, it says so and writes none: all else of a release needs no network and no package.
func (r *release) serverImages() ([]*serverImage, error) {
	all, _, err := readLock()
	if err != nil {
		return nil, err
	}
	if rest, err := missing(all); err != nil {
		return nil, err
	} else if len(rest) > 0 {
		fmt.Printf("no images of mysqld: %d packages were not fetched; `make release-packages` does that\n", len(rest))
		return nil, nil
	}
	var images []*serverImage
	for _, p := range all {
		at := slices.IndexFunc(images, func(i *serverImage) bool { return i.flavour == p.flavour })
		if at < 0 {
			at = len(images)
			images = append(images, &serverImage{flavour: p.flavour, version: p.version})
		}
		of := images[at]
		if p.version != of.version {
			return nil, fmt.Errorf("mysqld.lock has %s %s and %s: wait until Debian has one of them for both architectures",
				p.flavour, of.version, p.version)
		}
		of.packages = append(of.packages, p)
	}
	for _, i := range images {
		if err := i.write(r); err != nil {
			return nil, fmt.Errorf("image of %s: %w", i.flavour, err)
		}
	}
	return images, nil
}

func (i *serverImage) write(r *release) (err error) {
	server := map[string]string{"mysql": "/usr/sbin/mysqld", "mariadb": "/usr/sbin/mariadbd"}[i.flavour]
	var platforms []platformImage
	for _, arch := range architectures {
		p := platformImage{arch: arch, title: i.flavour + " " + i.version, licence: "GPL-2.0-only",
			config: object{"User": "999:999", "Entrypoint": []string{server}, "WorkingDir": "/",
				"Env": []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}}}
		if p.tree, err = i.root(arch); err != nil {
			return err
		}
		platforms = append(platforms, p)
	}
	i.digest, err = r.writeImage(i.archive(r), i.flavour, i.version, platforms)
	return err
}

// root is the image's file system. No script of a package is run: what they would do is here.
func (i *serverImage) root(arch string) (tree, error) {
	var t tree
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} { // as Debian has them
		t = append(t, file{name: dir, link: "usr/" + dir})
	}
	for _, dir := range []string{"usr/bin/", "usr/sbin/", "usr/lib64/", "dev/", "proc/", "sys/", "run/", "var/", "tmp/"} {
		t.add(dir, 0o755, nil)
	}
	t = append(t, file{name: "usr/bin/sh", link: "dash"})
	t.add("etc/passwd", 0o644, []byte("root:x:0:0::/:/bin/sh\nmysql:x:999:999::/:/bin/sh\n"))
	t.add("etc/group", 0o644, []byte("root:x:0:\nmysql:x:999:\n"))
	has := map[string]bool{}
	for _, f := range t {
		has[f.name] = true
	}
	for _, p := range i.packages {
		if p.arch != arch {
			continue
		}
		files, err := p.unpack()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.file, err)
		}
		for _, f := range files {
			if !has[f.name] {
				has[f.name] = true
				t = append(t, f)
			}
		}
	}
	return t, nil
}

// unpack returns the files of a package that an image needs.
func (p locked) unpack() (files []file, err error) {
	name, err := p.kept()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if sum(text) != p.sum {
		return nil, fmt.Errorf("%s is damaged; remove it and run `make release-packages`", name)
	}
	var said bytes.Buffer
	unpack := exec.Command("dpkg-deb", "--fsys-tarfile", name)
	unpack.Stderr = &said
	out, err := unpack.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, said.Bytes())
	}
	server := strings.HasPrefix(p.name(), "mysql-") || strings.HasPrefix(p.name(), "mariadb-")
	for r := tar.NewReader(bytes.NewReader(out)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		f := file{name: path.Clean(header.Name), mode: fs.FileMode(header.Mode) & fs.ModePerm} // #nosec G115 -- a mode
		switch top, _, _ := strings.Cut(f.name, "/"); top {
		case "bin", "sbin", "lib", "lib64":
			f.name = "usr/" + f.name
		}
		if !wanted(f.name) || server && isProgram(f.name) && !serverPrograms[path.Base(f.name)] {
			continue
		}
		switch header.Typeflag {
		case tar.TypeReg:
			if f.text, err = io.ReadAll(r); err != nil {
				return nil, err
			}
		case tar.TypeSymlink:
			f.link = header.Linkname
		case tar.TypeDir:
			continue
		default:
			return nil, fmt.Errorf("%s is a file of type %c", f.name, header.Typeflag)
		}
		files = append(files, f)
	}
}

func isProgram(name string) bool {
	return path.Dir(name) == "usr/bin" || path.Dir(name) == "usr/sbin"
}

// wanted leaves out what only people read, except for licences, and what only a whole system uses.
func wanted(name string) bool {
	parts := strings.Split(name, "/")
	switch {
	case parts[0] != "usr" && parts[0] != "etc", len(parts) == 1:
		return false
	case len(parts) > 2 && parts[1] == "share":
		switch parts[2] {
		case "doc":
			return path.Base(name) == "copyright" || len(parts) == 4
		case "man", "info", "locale", "lintian", "bash-completion", "bug", "debianutils", "gcc", "gdb":
			return false
		}
	case strings.HasSuffix(name, "_client.so"): // plugins of clients that log in at somebody's cloud
		return false
	case parts[1] == "include", strings.Contains(name, "/gconv/"), strings.Contains(name, "/systemd/"):
		return false
	}
	return true
}
