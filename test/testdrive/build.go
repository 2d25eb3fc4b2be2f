package testdrive

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"mysql-broker/test/servers"
)

// program is one variant of the compiled broker. It is built once for all tests of a run.
type program struct {
	name    string
	sources func(dir string) (string, error) // returns where they are; dir is for what has to be unpacked
	options []string                         // of go build

	once sync.Once
	path string
	err  error
}

var (
	plain = &program{name: "mysql-broker", sources: ownSources, options: raceOption}
	// faulty has fault points.
	faulty = &program{name: "mysql-broker-faults", sources: ownSources, options: append(raceOption, "-tags", "faults")}
)

func ownSources(string) (string, error) { return Root(), nil }

// binaryFor is the path of the broker's program, with fault points if the environment asks for them.
func binaryFor(t testing.TB, env map[string]string) string {
	t.Helper()
	if env["FAULT_SOCKET"] != "" {
		return faulty.built(t)
	}
	return plain.built(t)
}

// Binary is the path of the broker's program, mysql-broker.
func Binary(t testing.TB) string {
	t.Helper()
	return plain.built(t)
}

func (p *program) built(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(servers.SharedDir(t), "programs"+raceSuffix)
	p.once.Do(func() { p.path, p.err = p.build(dir) })
	if p.err != nil {
		t.Fatal(p.err)
	}
	return p.path
}

// build compiles the program, unless another test binary has compiled it. A lock on the directory makes others wait.
func (p *program) build(dir string) (path string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	locked, err := os.Open(dir)
	if err != nil {
		return "", err
	}
	defer locked.Close()
	if err := syscall.Flock(int(locked.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", dir, err)
	}
	path = filepath.Join(dir, p.name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	root, err := p.sources(dir)
	if err != nil {
		return "", err
	}
	unfinished := path + ".unfinished"
	args := append([]string{"build", "-buildvcs=false", "-o", unfinished}, p.options...)
	command := exec.Command("go", append(args, "./cmd/mysql-broker")...)
	command.Dir = root
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the broker: %w\n%s", err, out)
	}
	return path, os.Rename(unfinished, path)
}
