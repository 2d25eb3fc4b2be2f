package dockerarchive_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/deploy/mysqld-image/dockerarchive"
)

// entries reads a tar file.
func entries(t *testing.T, r io.Reader) (headers map[string]*tar.Header, contents map[string][]byte) {
	headers, contents = map[string]*tar.Header{}, map[string][]byte{}
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return headers, contents
		}
		require.NoError(t, err)
		content, err := io.ReadAll(in)
		require.NoError(t, err)
		assert.Nil(t, headers[h.Name], "%s is there twice", h.Name)
		headers[h.Name], contents[h.Name] = h, content
	}
}

// The archive is what `docker load` reads: https://github.com/moby/docker-image-spec/blob/main/v1.2.md
func TestWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	base, data, path := filepath.Join(dir, "base"), filepath.Join(dir, "data"), filepath.Join(dir, "images.tar")
	require.NoError(t, errors.Join(os.MkdirAll(filepath.Join(base, "bin"), 0o755), os.Mkdir(data, 0o755),
		os.WriteFile(filepath.Join(base, "bin/mysqld"), []byte("program"), 0o751), os.Symlink("bin", filepath.Join(base, "sbin")),
		os.WriteFile(filepath.Join(data, "ibdata1"), []byte("data"), 0o640)))
	plain := dockerarchive.Image{Name: "mysql:9-plain", User: "999:999", Env: []string{"PATH=/bin"}, Entrypoint: []string{"mysqld"},
		Layers: []string{base}}
	full := plain
	full.Name, full.Layers = "mysql:9", []string{base, data}
	require.NoError(t, dockerarchive.Write(path, plain, full))
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	_, files := entries(t, bytes.NewReader(raw))
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil || len(manifest) != 2 {
		t.Fatalf("the manifest is %s, %v", files["manifest.json"], err)
	}
	for n, image := range []dockerarchive.Image{plain, full} {
		var config struct {
			OS     string
			Config struct {
				User            string
				Env, Entrypoint []string
			}
			RootFS struct {
				DiffIDs []string `json:"diff_ids"`
			}
		}
		m := manifest[n]
		if err := json.Unmarshal(files[m.Config], &config); err != nil || !slices.Equal(m.RepoTags, []string{image.Name}) ||
			config.OS != "linux" || config.Config.User != image.User || !slices.Equal(config.Config.Env, image.Env) ||
			!slices.Equal(config.Config.Entrypoint, image.Entrypoint) || len(m.Layers) != len(image.Layers) {
			t.Errorf("image %d is %+v with %s, %v", n, m, files[m.Config], err)
		}
		for k, name := range m.Layers {
			sum := sha256.Sum256(files[name])
			if id := "sha256:" + hex.EncodeToString(sum[:]); config.RootFS.DiffIDs[k] != id {
				t.Errorf("the layer %s is %s", config.RootFS.DiffIDs[k], id)
			}
		}
	}
	assert.True(t, len(files) == 5 && manifest[0].Layers[0] == manifest[1].Layers[0],
		"%d files; the images share no layer", len(files))
	headers, contents := entries(t, bytes.NewReader(files[manifest[1].Layers[0]]))
	program, link := headers["bin/mysqld"], headers["sbin"]
	assert.True(t, program != nil && program.Mode == 0o751 && program.Uid == os.Getuid() && program.Uname == "" &&
		string(contents["bin/mysqld"]) == "program", "the program is %+v", program)
	assert.True(t, link != nil && link.Typeflag == tar.TypeSymlink && link.Linkname == "bin", "the link is %+v", link)
	all, err := filepath.Glob(filepath.Join(dir, "layer*"))
	assert.True(t, err == nil && len(all) == 0, "left are %q, %v", all, err)
}

func TestWriteFails(t *testing.T) {
	t.Parallel()
	image := dockerarchive.Image{Name: "mysql:9", Layers: []string{filepath.Join(t.TempDir(), "none")}}
	err := dockerarchive.Write(filepath.Join(t.TempDir(), "x.tar"), image)
	assert.True(t, err != nil && strings.Contains(err.Error(), "image mysql:9"), "without its layer: %v", err)
}
