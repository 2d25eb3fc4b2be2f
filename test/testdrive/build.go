package testdrive

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"mysql-broker/test/servers"
)

// binaryFor is the path of the broker's program, with fault points if the environment asks for them.
func binaryFor(t testing.TB, env map[string]string) string {
	t.Helper()
	if env["FAULT_SOCKET"] != "" {
		return program(t, "mysql-broker-faults", ownSources, append(raceOption, "-tags", "faults")...)
	}
	return Binary(t)
}

// Binary is the path of the broker's program, mysql-broker.
func Binary(t testing.TB) string {
	t.Helper()
	return program(t, "mysql-broker", ownSources, raceOption...)
}

func ownSources(string) (string, error) { return Root(), nil }

// program is the path of a variant of the broker, which is compiled once for all tests of a run. sources returns where
// its sources are; dir is for what has to be unpacked.
func program(t testing.TB, name string, sources func(dir string) (string, error), options ...string) string {
	t.Helper()
	return servers.Made(t, filepath.Join("programs"+raceSuffix, name), func(path string) error {
		root, err := sources(filepath.Dir(path))
		if err != nil {
			return err
		}
		args := append([]string{"build", "-buildvcs=false", "-o", path}, options...)
		command := exec.Command("go", append(args, "./cmd/mysql-broker")...)
		command.Dir = root
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("build the broker: %w\n%s", err, out)
		}
		return nil
	})
}
