package deploy

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

const (
	mebibyte = 1 << 20
	version  = "1.0.0"
)

// Two releases of one commit, made in two folders by two users' settings, are the same. Each file works without Go, as an
// operator uses it.
func TestRelease(t *testing.T) {
	if os.Getenv("LONG") == "" {
		t.Skip("compiles for two architectures; make test-long runs it")
	}
	in(t, testdrive.Root(), "make", "release-packages")
	first := makeRelease(t, "TZ=UTC", "LC_ALL=C")
	second := makeRelease(t, "TZ=Asia/Tokyo", "LC_ALL=C.UTF-8", "GOFLAGS=-v", "GOAMD64=v3")
	out, err := exec.Command("diff", "--recursive", first, second).CombinedOutput()
	assert.NoError(t, err, "the releases differ: %v\n%s", err, out)
	in(t, first, "sha256sum", "--check", "--quiet", "SHA256SUMS")
	expectSize(t, filepath.Join(first, "mysql-broker-"+version+"-image.oci.tar"), 45*mebibyte)
	t.Run("images of mysqld", func(t *testing.T) { testServerImages(t, first) })
	t.Run("Cloud Foundry", func(t *testing.T) { testCloudFoundryZip(t, first) })
	t.Run("image", func(t *testing.T) { testImageArchive(t, first) })
	t.Run("host", func(t *testing.T) { testHostArchive(t, first) })
}

// makeRelease makes a release of HEAD in a clone, and returns the folder with its files.
func makeRelease(t *testing.T, env ...string) string {
	clone := filepath.Join(t.TempDir(), "clone")
	in(t, "/", "git", "-c", "safe.directory=*", "clone", "-q", testdrive.Root(), clone)
	cmd := exec.Command("make", "release", "VERSION="+version)
	cmd.Dir, cmd.Env = clone, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%v\n%s", err, out)
	return filepath.Join(clone, "dist")
}

// in runs a command in a folder.
func in(t *testing.T, dir, name string, args ...string) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s: %v\n%s", cmd, err, out)
}

func expectSize(t *testing.T, path string, most int64) {
	info, err := os.Stat(path)
	assert.True(t, err == nil && info.Size() <= most, "%s: %v, %+v", path, err, info)
}

var startCommand = regexp.MustCompile(`(?m)^ +command: (.*)$`)

// Cloud Foundry runs the manifest's command in the folder of what was pushed, as a user without rights.
func testCloudFoundryZip(t *testing.T, dist string) {
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		dir, err := os.MkdirTemp("/tmp", "release-cf") // which other users can enter
		require.NoError(t, err)
		t.Cleanup(func() { os.RemoveAll(dir) })
		in(t, dir, "unzip", "-q", filepath.Join(dist, "mysql-broker-"+version+"-cf.zip"))
		app := filepath.Join(dir, "mysql-broker-"+version+"-cf")
		in(t, app, "sha256sum", "--check", "--quiet", "SHA256SUMS")
		expectSize(t, filepath.Join(app, "bin/mysql-broker"), 40*mebibyte)
		manifest, err := os.ReadFile(filepath.Join(app, "manifest.yml"))
		require.NoError(t, err)
		for _, pattern := range strings.Fields(string(mustRead(t, filepath.Join(app, ".cfignore")))) {
			require.NoError(t, os.RemoveAll(filepath.Join(app, pattern)))
		}
		require.NoError(t, errors.Join(os.Chmod(dir, 0o755), os.Chmod(app, 0o755)))
		start := exec.Command("sh", "-c", "exec "+startCommand.FindStringSubmatch(string(manifest))[1])
		start.Dir, start.Env = app, []string{"PATH=/usr/bin:/bin"}
		for name, value := range imageEnvironment(t, s) {
			start.Env = append(start.Env, name+"="+value)
		}
		if os.Geteuid() == 0 {
			start.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: imageUser, Gid: imageUser}}
		}
		out, _, err := smokeTest(t, testdrive.StartCommand(t, start), nil, "mysql", "shared-small")
		assert.True(t, err == nil && strings.HasSuffix(out, "shared-small works\n"), "%v\n%s", err, out)
	})
}

func mustRead(t *testing.T, path string) []byte {
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return text
}

// What the image for this machine has in it is enough to serve.
func testImageArchive(t *testing.T, dist string) {
	layout, root := t.TempDir(), t.TempDir()
	in(t, layout, "tar", "-xf", filepath.Join(dist, "mysql-broker-"+version+"-image.oci.tar"))
	var index, platforms, manifest struct {
		Manifests []struct{ Digest string }
		Layers    []struct{ Digest string }
	}
	blob := func(digest string) string {
		return filepath.Join(layout, "blobs", strings.Replace(digest, ":", "/", 1))
	}
	for _, read := range []struct {
		from func() string
		to   any
	}{{func() string { return filepath.Join(layout, "index.json") }, &index},
		{func() string { return blob(index.Manifests[0].Digest) }, &platforms},
		{func() string { return blob(platforms.Manifests[0].Digest) }, &manifest}} { // amd64
		require.NoError(t, json.Unmarshal(mustRead(t, read.from()), read.to))
	}
	in(t, root, "tar", "-xzf", blob(manifest.Layers[0].Digest))
	require.NoError(t, os.Chmod(root, 0o755))
	expectImageServes(t, root, version, imageEnvironment(t, servers.Any(t)))
	base := fileOf(t, filepath.Join(dist, "mysql-broker-"+version+"-kubernetes.tar.gz"), "/deploy/kubernetes/base/kustomization.yaml")
	assert.Contains(t, base, "digest: "+index.Manifests[0].Digest+"\n",
		"the base of the Kubernetes archive does not name the image:")
}

var serverImages = regexp.MustCompile(`(?m)^#LAUNCHER_IMAGES=mysql-(.*)=registry.example.com/mysql@(sha256:.*),` +
	`mariadb-(.*)=registry.example.com/mariadb@(sha256:.*)$`)

// The example's settings name the images by their digests. What the images are good for is tested on a node:
// test/kubernetes/release.sh.
func testServerImages(t *testing.T, dist string) {
	settings := fileOf(t, filepath.Join(dist, "mysql-broker-"+version+"-kubernetes.tar.gz"), "/example/broker.env.example")
	named := serverImages.FindStringSubmatch(settings)
	require.NotNil(t, named, "the example names no images:\n%s", settings)
	for i, flavour := range []string{"mysql", "mariadb"} {
		archive := filepath.Join(dist, "mysql-broker-"+version+"-"+flavour+"-"+named[1+2*i]+".oci.tar")
		if index := fileOf(t, archive, "index.json"); !strings.Contains(index, `"digest":"`+named[2+2*i]+`"`) {
			t.Errorf("%s does not have the digest %s:\n%s", archive, named[2+2*i], index)
		}
	}
}

// fileOf reads a file of an archive, by the end of its name.
func fileOf(t *testing.T, path, name string) string {
	var plain io.Reader = bytes.NewReader(mustRead(t, path))
	if strings.HasSuffix(path, "gz") {
		var err error
		plain, err = gzip.NewReader(plain)
		require.NoError(t, err)
	}
	for r := tar.NewReader(plain); ; {
		header, err := r.Next()
		require.NoError(t, err, "%s: %s", path, name)
		if strings.HasSuffix(header.Name, name) {
			text, err := io.ReadAll(r)
			require.NoError(t, err)
			return string(text)
		}
	}
}

// The package is installed in a container of systemd, as deploy/systemd says of the program; bin is the archive's.
func testHostArchive(t *testing.T, dist string) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	in(t, dist, "tar", "-xzf", "mysql-broker-"+version+"-linux-amd64.tar.gz")
	unpacked, clone := filepath.Join(dist, "mysql-broker-"+version+"-linux-amd64"), filepath.Dir(dist)
	in(t, unpacked, "sha256sum", "--check", "--quiet", "SHA256SUMS")
	in(t, unpacked, "man", "--warnings", "--local-file", "share/man/man1/mysql-broker.1")
	in(t, unpacked, "bash", "-n", "share/bash-completion/completions/mysql-broker")
	require.NoError(t, os.Symlink(filepath.Join(unpacked, "bin"), filepath.Join(clone, "bin")))
	systemd := exec.Command("test/systemd/restart.sh")
	systemd.Dir, systemd.Env = clone, append(os.Environ(), "PACKAGE="+filepath.Join(dist, "mysql-broker_"+version+"_amd64.deb"))
	out, err := systemd.CombinedOutput()
	assert.NoError(t, err, "%v\n%s", err, out)
}
