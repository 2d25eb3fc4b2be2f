// Package s3 hands tests a real S3 service, versitygw, in a process of its own.
package s3

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// module is built from the module proxy. https://github.com/versity/versitygw
const module = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"

// Credentials of every service under test, and its bucket.
const (
	AccessKey = "access-key"
	SecretKey = "secret/key+of=the-tests"
	Bucket    = "backups"
)

// Service is an S3 service with an empty bucket. Stop and Start interrupt it; it keeps its objects and its address.
type Service struct {
	Address string // host and port
	Dir     string // of the bucket: each object is a file under its name
	root    string
	process *testdrive.Broker
}

// Start runs a service until the test ends.
func Start(t testing.TB) *Service {
	root := t.TempDir()
	s := &Service{Address: fmt.Sprintf("127.0.0.1:%d", testdrive.FreePort(t)), root: root,
		Dir: filepath.Join(root, "data", Bucket)}
	for _, dir := range []string{s.Dir, filepath.Join(root, "metadata")} {
		require.NoError(t, os.MkdirAll(dir, 0o700))
	}
	s.Start(t)
	return s
}

// Configure returns the variables of a broker that uses the service.
func (s *Service) Configure(env map[string]string) {
	env["BACKUP_STORE"] = "http://" + s.Address + "/" + Bucket + "/mysql"
	env["BACKUP_ACCESS_KEY"], env["BACKUP_SECRET_KEY"] = AccessKey, SecretKey
}

// Start starts the service again after Stop, and waits until it listens.
func (s *Service) Start(t testing.TB) {
	s.process = testdrive.StartProgram(t, map[string]string{"ROOT_ACCESS_KEY": AccessKey, "ROOT_SECRET_KEY": SecretKey},
		build(t), "--port", s.Address, "--quiet", "posix", "--sidecar", filepath.Join(s.root, "metadata"),
		filepath.Join(s.root, "data"))
	t.Cleanup(func() { s.Stop(t) })
	testdrive.Eventually(t, "the S3 service listens", func() bool {
		conn, err := net.Dial("tcp", s.Address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}

// Stop kills the service.
func (s *Service) Stop(t testing.TB) { s.process.Kill(t) }

// Freeze stops the service with SIGSTOP: the kernel accepts connections, but nothing is answered. thaw continues it.
func (s *Service) Freeze(t testing.TB) (thaw func()) {
	s.process.Signal(t, syscall.SIGSTOP)
	return func() { s.process.Signal(t, syscall.SIGCONT) }
}

// Objects lists the names of all objects in the bucket.
func (s *Service) Objects(t testing.TB) (names []string) {
	err := filepath.WalkDir(s.Dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(s.Dir, path)
		names = append(names, name)
		return err
	})
	require.NoError(t, err)
	return names
}

// build compiles the program once for all tests of a run. That takes minutes on a machine that has none of its packages
// in Go's cache.
func build(t testing.TB) string {
	return servers.Made(t, filepath.Join("programs-s3", "versitygw"), func(path string) error {
		dir := filepath.Dir(path)
		command := exec.Command("go", "install", module)
		command.Dir = dir // outside of the project's module
		// The flags are those of the Makefile, so that nothing is compiled twice, nor again with the race detector.
		command.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=-buildvcs=false -trimpath", "CGO_ENABLED=0", "GOWORK=off")
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return os.Rename(filepath.Join(dir, "versitygw"), path)
	})
}
