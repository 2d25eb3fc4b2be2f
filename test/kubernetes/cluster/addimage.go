package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"mysql-broker/provisioner/launcher/mysqld"
)

// AddedDir is where containers of an added image see the tree of its program.
const AddedDir = "/usr/local/share/added"

// dockerHub is where pods look for images whose names have no other host.
const dockerHub = "docker.io/"

const addedPath = AddedDir + "/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// addedName is a name for an image. Tests that run at once add images for the same purpose.
func addedName(prefix, base string) string {
	return prefix + "-" + strings.ToLower(rand.Text()) + "/" + base
}

// AddImage adds an image to those that pods can have: one that is there, base, with the tree of a program at AddedDir.
// The program comes first in $PATH. The image's name begins with the prefix; no other image has it.
func (n Node) AddImage(ctx context.Context, prefix, base string, b mysqld.Binary) (string, error) {
	name := addedName(prefix, base)
	return name, n.importImage(ctx, name, base, b)
}

// importImage imports an archive with one layer; containerd has those of base already.
func (n Node) importImage(ctx context.Context, name, base string, b mysqld.Binary) (err error) {
	dir, err := os.MkdirTemp(n.c.cfg.Dir, "added")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	layout := layout{dir: filepath.Join(dir, "layout")}
	if err := layout.make(); err != nil {
		return err
	}
	layer, err := layout.addLayer(ctx, filepath.Join(dir, "layer"), b)
	if err != nil {
		return err
	}
	manifest, config, err := n.readImage(ctx, dockerHub+base)
	if err != nil {
		return fmt.Errorf("image %s: %w", base, err)
	}
	config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, layer.Digest)
	config.Config.Env = []string{"PATH=" + addedPath}
	manifest.Layers = append(manifest.Layers, layer)
	if manifest.Config, err = layout.addJSON(manifest.Config.MediaType, config); err != nil {
		return err
	}
	described, err := layout.addJSON(manifest.MediaType, manifest)
	if err != nil {
		return err
	}
	described.Annotations = map[string]string{"io.containerd.image.name": dockerHub + name}
	archive := filepath.Join(dir, "archive.tar")
	if err := layout.write(ctx, described, archive); err != nil {
		return err
	}
	_, err = n.c.Containerd(ctx, "image", "import", archive)
	return err
}

// readImage returns what containerd knows of an image.
func (n Node) readImage(ctx context.Context, name string) (manifest ociManifest, config ociConfig, err error) {
	list, err := n.c.Containerd(ctx, "image", "list", "name=="+name)
	if err != nil {
		return manifest, config, err
	}
	lines := strings.Split(strings.TrimSpace(string(list)), "\n") // REF TYPE DIGEST …
	if fields := strings.Fields(lines[len(lines)-1]); len(fields) < 3 || fields[0] != name {
		return manifest, config, errors.New("it is not there")
	} else if err := n.readContent(ctx, fields[2], &manifest); err != nil {
		return manifest, config, err
	}
	return manifest, config, n.readContent(ctx, manifest.Config.Digest, &config)
}

func (n Node) readContent(ctx context.Context, digest string, into any) error {
	text, err := n.c.Containerd(ctx, "content", "get", digest)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// layout is a directory with the parts of an image.
// https://github.com/opencontainers/image-spec/blob/v1.1.0/image-layout.md
type layout struct{ dir string }

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type ociManifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type ociConfig struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
	Config       struct {
		User       string
		Env        []string
		Entrypoint []string
		WorkingDir string
	} `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

func (l layout) make() error {
	return errors.Join(os.MkdirAll(filepath.Join(l.dir, "blobs", "sha256"), 0o755),
		os.WriteFile(filepath.Join(l.dir, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644))
}

func (l layout) add(mediaType string, content []byte) (descriptor, error) {
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	return descriptor{MediaType: mediaType, Digest: "sha256:" + digest, Size: int64(len(content))},
		os.WriteFile(filepath.Join(l.dir, "blobs", "sha256", digest), content, 0o644)
}

func (l layout) addJSON(mediaType string, content any) (descriptor, error) {
	text, err := json.Marshal(content)
	if err != nil {
		return descriptor{}, err
	}
	return l.add(mediaType, text)
}

// addLayer adds the tree of a program. Programs of Debian unstable name their libraries by the paths on this host, so
// there is a link.
func (l layout) addLayer(ctx context.Context, dir string, b mysqld.Binary) (descriptor, error) {
	tree, home := filepath.Join(dir, AddedDir), filepath.Join(dir, b.BaseDir)
	if err := errors.Join(os.MkdirAll(filepath.Dir(tree), 0o755), os.MkdirAll(filepath.Dir(home), 0o755),
		os.Symlink(AddedDir, home)); err != nil {
		return descriptor{}, err
	}
	if _, err := output(ctx, "cp", "-aT", b.BaseDir, tree); err != nil {
		return descriptor{}, err
	}
	content, err := output(ctx, "tar", "-C", dir, "--owner=0", "--group=0", "-c", ".")
	if err != nil {
		return descriptor{}, err
	}
	return l.add("application/vnd.docker.image.rootfs.diff.tar", content)
}

// write writes an archive of the image that is described.
func (l layout) write(ctx context.Context, described descriptor, archive string) error {
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []descriptor{described}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(l.dir, "index.json"), index, 0o644); err != nil {
		return err
	}
	_, err = output(ctx, "tar", "-C", l.dir, "-cf", archive, "oci-layout", "index.json", "blobs")
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
