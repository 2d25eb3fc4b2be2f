package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// step is one command of a lane: go test on some packages with servers that they share, or any other.
type step struct {
	command  []string // instead of go test
	packages []string // patterns of go list; what matches one with "!" before it is left out
	args     []string // of go test
	env      []string
	rerun    bool // runs up to three failed tests once more, and prints them as flaky
}

// stuck is when go test ends a package; tests that wait for something give up much earlier.
const stuck = time.Hour

// outcome is what the steps of a lane came to.
type outcome struct {
	wall, cpu time.Duration
	failure   string   // the first test or package that failed
	closing   []string // go test's own lines, the last one of each package
	flaky     string   // tests that passed the second time
}

// runSteps runs all steps, also after one that fails, and then prints what they cost, what more prints, the flaky tests,
// and go test's own lines.
func runSteps(ctx context.Context, steps []step, more func() error) error {
	dir, err := os.MkdirTemp("", "lane")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	sum, err := runAll(ctx, steps, dir)
	fmt.Printf("\nLoad average now: %s", loadAverage())
	err = errors.Join(err, printCosts(os.Stdout, filepath.Join(dir, "costs"), sum.cpu, sum.wall), more())
	fmt.Print(sum.flaky)
	for _, line := range sum.closing {
		fmt.Println(line)
	}
	return err
}

func runAll(ctx context.Context, steps []step, dir string) (sum outcome, err error) {
	begun, used := time.Now(), ofChildren()
	var errs []error
	for _, s := range steps {
		if err := s.run(ctx, dir, &sum); err != nil {
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	sum.wall, sum.cpu = time.Since(begun), ofChildren()-used
	flaky, err := os.ReadFile(filepath.Join(dir, "flaky"))
	if err == nil && len(flaky) > 0 {
		sum.flaky = "\nflaky:\n" + string(flaky)
	}
	return sum, errors.Join(errs...)
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown\n"
	}
	return string(text)
}

func (s step) run(ctx context.Context, dir string, sum *outcome) error {
	command := s.command
	if command == nil {
		var err error
		if command, err = s.goTest(ctx, dir); err != nil {
			return err
		}
	}
	fmt.Println("+", strings.Join(append(slices.Clone(s.env), command...), " "))
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // with-servers passes it on, and cleans up
	cmd.Env = append(os.Environ(), s.env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	ran, readErr := sum.read(out)
	err = cmd.Wait()
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", strings.Join(command[:min(3, len(command))], " "), err)
	case s.command == nil && ran == 0:
		return fmt.Errorf("no test ran in %v", s.packages)
	}
	return readErr
}

// goTest is the command that runs the step's packages.
func (s step) goTest(ctx context.Context, dir string) ([]string, error) {
	packages, err := list(ctx, s.packages)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	flags := append([]string{"-vet=off", "-count=1", "-timeout=" + stuck.String(),
		"-exec=" + self + " cost " + filepath.Join(dir, "costs")}, s.args...)
	withServers := filepath.Join(dir, "with-servers") // go run would not pass signals on
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", withServers, "./test/servers/with-servers").
		CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build with-servers: %w\n%s", err, out)
	}
	command := []string{withServers}
	if !s.rerun {
		return append(append(append(command, "go", "test"), flags...), packages...), nil
	}
	command = append(command, "bin/gotestsum", "--format=standard-quiet", "--rerun-fails=1", "--rerun-fails-max-failures=3",
		"--rerun-fails-report="+filepath.Join(dir, "flaky"), "--packages="+strings.Join(packages, " "), "--")
	return append(command, flags...), nil
}

// list resolves patterns to import paths, in the order of the patterns, because go test begins packages in that order.
func list(ctx context.Context, patterns []string) (packages []string, err error) {
	var without []string
	for _, pattern := range patterns {
		name, negated := strings.CutPrefix(pattern, "!")
		out, err := exec.CommandContext(ctx, "go", "list", name).Output()
		if err != nil {
			return nil, fmt.Errorf("go list %s: %w", name, err)
		}
		if negated {
			without = append(without, strings.Fields(string(out))...)
			continue
		}
		for _, found := range strings.Fields(string(out)) {
			if !slices.Contains(packages, found) {
				packages = append(packages, found)
			}
		}
	}
	return slices.DeleteFunc(packages, func(p string) bool { return slices.Contains(without, p) }), nil
}

var (
	closingLine = regexp.MustCompile(`^(?:ok|FAIL|---) *\t(\S+)\t.*$`)
	failedTest  = regexp.MustCompile(`^\s*--- FAIL: (\S+)`)
)

// read passes the output of go test on and remembers what matters of it. ran is the number of packages that had tests.
func (o *outcome) read(out io.Reader) (ran int, err error) {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		fmt.Print(line)
		line = strings.TrimRight(line, "\n")
		if found := failedTest.FindStringSubmatch(line); found != nil && o.failure == "" {
			o.failure = found[1]
		}
		if found := closingLine.FindStringSubmatch(line); found != nil {
			o.close(found[1], line)
			if strings.HasPrefix(line, "ok") && !strings.HasSuffix(line, "[no tests to run]") {
				ran++
			}
		}
		if errors.Is(err, io.EOF) {
			return ran, nil
		}
		if err != nil {
			return ran, err
		}
	}
}

// close replaces the line of a package whose failed tests ran once more.
func (o *outcome) close(name, line string) {
	same := func(earlier string) bool {
		return strings.Contains(earlier, "\t"+name+"\t") && strings.HasPrefix(earlier, "FAIL")
	}
	o.closing = append(slices.DeleteFunc(o.closing, same), line)
}
