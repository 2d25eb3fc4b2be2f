package deploy

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// The user of the image, as the Dockerfile names it.
const imageUser = 65532

// inImage are the files that the Dockerfile copies into the image, by where they lie when it is built.
var inImage = map[string]string{
	"/etc/ssl/certs/ca-certificates.crt": "/etc/ssl/certs/ca-certificates.crt",
	"/src/bin/mysql-broker":              "/mysql-broker",
	"/src/catalog.yml":                   "/catalog.yml",
}

// The build context suffices to build the broker, which serves in a root directory that holds nothing but what the
// Dockerfile copies there, as a user without rights. There is no Docker here: the test stands in for it by make and
// chroot(2).
func TestImage(t *testing.T) {
	t.Parallel()
	env := imageEnvironment(t, servers.Any(t))
	dockerfile, sources, root := readFile(t, "deploy/container/Dockerfile"), buildContext(t), t.TempDir()
	build := exec.Command("make", "build", "VERSION=1.2.3-test")
	build.Dir = sources
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%v\n%s", err, out)
	for from, to := range inImage {
		line := "COPY --from=build " + from + " " + to + "\n"
		assert.True(t, strings.Contains(dockerfile, line), "the Dockerfile lacks %q", line)
		in(t, "/", "install", "-D", strings.Replace(from, "/src", sources, 1), filepath.Join(root, to))
	}
	in(t, "/", "install", "-d", "-m", "1777", filepath.Join(root, "tmp"))
	require.NoError(t, os.Chmod(root, 0o755))
	expectImageServes(t, root, "1.2.3-test", env)
}

// expectImageServes runs the broker of the image whose files are in root.
func expectImageServes(t *testing.T, root, version string, env map[string]string) {
	out, err := inChroot(root, "version").CombinedOutput()
	assert.True(t, err == nil && strings.HasPrefix(string(out), "mysql-broker "+version+" "), "version: %v: %s", err, out)
	serve := inChroot(root, "serve")
	serve.Env = testdrive.Environ(env)
	testdrive.StartCommand(t, serve).Do(t, "GET", "/v2/catalog", nil).Expect(t, http.StatusOK)
}

// buildContext is a copy of the work tree, as far as .dockerignore lets it into the build.
func buildContext(t *testing.T) string {
	patterns := []string{":(exclude).dockerignore"}
	var files []string
	for line := range strings.Lines(readFile(t, ".dockerignore")) {
		line = strings.TrimSpace(line)
		if included, ok := strings.CutPrefix(line, "!"); ok {
			files = append(files, knownFiles(t, included)...)
		} else if line != "" && !strings.HasPrefix(line, "#") {
			patterns = append(patterns, ":(exclude)"+line)
		}
	}
	dir := t.TempDir()
	in(t, path(""), "cp", append([]string{"--parents", "-t", dir}, append(files, knownFiles(t, patterns...)...)...)...)
	return dir
}

// inChroot is the broker as a container runs it. A user who is not root has a user namespace to be the image's user in.
func inChroot(root string, args ...string) *exec.Cmd {
	cmd := exec.Command("/mysql-broker", args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Pdeathsig: syscall.SIGKILL,
		Credential: &syscall.Credential{Uid: imageUser, Gid: imageUser}}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Credential.NoSetGroups = true
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: imageUser, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: imageUser, HostID: os.Getegid(), Size: 1}}
	}
	return cmd
}

// imageEnvironment is that of a broker with shared servers, and a URL of PostgreSQL that holds a certificate: the broker
// has to write that to a file. The catalog is the image's own.
func imageEnvironment(t *testing.T, server servers.MySQL) map[string]string {
	env := maps.Clone(testdrive.Environment(t, server)) // which knows its launcher until the test ends
	var shared []struct {
		CA string `json:"ca_certificate"`
	}
	require.NoError(t, json.Unmarshal([]byte(env["MYSQL_SERVERS"]), &shared))
	database, err := url.Parse(env["DATABASE_URL"])
	require.True(t, err == nil && shared[0].CA != "", "no URL, or no certificate: %v", err)
	query := database.Query()
	query.Set("sslmode", "disable") // the test's PostgreSQL has no TLS
	query.Set("sslrootcert", shared[0].CA)
	database.RawQuery = query.Encode()
	env["DATABASE_URL"] = database.String()
	for name := range env {
		if name == "CATALOG" || name == "PATH" || strings.HasPrefix(name, "LAUNCHER") {
			delete(env, name)
		}
	}
	return env
}
