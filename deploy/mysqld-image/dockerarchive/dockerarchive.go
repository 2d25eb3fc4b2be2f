// Package dockerarchive writes container images without Docker, in the form of `docker save`, which `ctr image import`,
// `docker load` and `podman load` read.
package dockerarchive

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// Image is one image of an archive.
type Image struct {
	Name       string // with its tag
	User       string // number, or number:group
	Env        []string
	Entrypoint []string
	Layers     []string // directories, the lowest first; files keep their owners and modes
}

// Write writes an archive of images. A layer that several images have is in it once.
func Write(path string, images ...Image) (err error) {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	w := &writer{tar: tar.NewWriter(out), dir: filepath.Dir(path), layers: map[string]string{}}
	var manifest []manifestEntry
	for n, image := range images {
		entry, err := w.add(fmt.Sprintf("config%d.json", n), image)
		if err != nil {
			return fmt.Errorf("image %s: %w", image.Name, err)
		}
		manifest = append(manifest, entry)
	}
	if err := w.addJSON("manifest.json", manifest); err != nil {
		return err
	}
	return w.tar.Close()
}

// manifestEntry is an image in manifest.json.
// https://github.com/moby/docker-image-spec/blob/main/v1.2.md
type manifestEntry struct {
	Config   string
	RepoTags []string
	Layers   []string
}

type writer struct {
	tar    *tar.Writer
	dir    string            // for temporary files
	layers map[string]string // digests of layers that are in the archive, by directory
}

func (w *writer) add(config string, image Image) (manifestEntry, error) {
	entry := manifestEntry{Config: config, RepoTags: []string{image.Name}}
	var digests []string
	for _, dir := range image.Layers {
		if w.layers[dir] == "" {
			if err := w.addLayer(dir); err != nil {
				return entry, err
			}
		}
		digests = append(digests, "sha256:"+w.layers[dir])
		entry.Layers = append(entry.Layers, w.layers[dir]+".tar")
	}
	return entry, w.addJSON(config, map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"User": image.User, "Env": image.Env, "Entrypoint": image.Entrypoint, "WorkingDir": "/"},
		"rootfs": map[string]any{"type": "layers", "diff_ids": digests},
	})
}

// addLayer writes the layer to a file first, as the name of an archive's entry is its digest.
func (w *writer) addLayer(dir string) error {
	layer, err := os.CreateTemp(w.dir, "layer")
	if err != nil {
		return err
	}
	defer os.Remove(layer.Name())
	defer layer.Close()
	digest := sha256.New()
	if err := writeTree(io.MultiWriter(layer, digest), dir); err != nil {
		return err
	}
	name := hex.EncodeToString(digest.Sum(nil))
	w.layers[dir] = name
	size, err := layer.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err := layer.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := w.tar.WriteHeader(&tar.Header{Name: name + ".tar", Mode: 0o644, Size: size}); err != nil {
		return err
	}
	_, err = io.Copy(w.tar, layer)
	return err
}

func (w *writer) addJSON(name string, content any) error {
	text, err := json.Marshal(content)
	if err != nil {
		return err
	}
	if err := w.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
		return err
	}
	_, err = w.tar.Write(text)
	return err
}

func writeTree(out io.Writer, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	w := tar.NewWriter(out)
	err = fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		return writeFile(w, root, path, entry)
	})
	return errors.Join(err, w.Close())
}

func writeFile(w *tar.Writer, root *os.Root, path string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	var target string
	if info.Mode()&fs.ModeSymlink != 0 {
		if target, err = root.Readlink(path); err != nil {
			return err
		}
	}
	header, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	header.Name = path
	if stat, ok := info.Sys().(*syscall.Stat_t); ok { // the names are those of this host's users
		header.Uid, header.Gid, header.Uname, header.Gname = int(stat.Uid), int(stat.Gid), "", ""
	}
	if err := w.WriteHeader(header); err != nil || !info.Mode().IsRegular() {
		return err
	}
	file, err := root.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(w, file)
	return err
}
