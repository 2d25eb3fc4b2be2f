package main

import (
	"bufio"
	"cmp"
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
	"sync"
	"syscall"
	"time"
)

// step is one command of a lane: go test on some packages with servers that all steps share, or any other.
type step struct {
	command  []string // instead of go test
	packages []string // patterns of go list; what matches one with "!" before it is left out
	args     []string // of go test
	env      []string
	rerun    bool // runs up to three failed tests once more, and prints them as flaky
	beside   bool // runs at the same time as the step before; what it prints follows when both have ended
}

// stuck is when go test ends a package; tests that wait for something give up much earlier.
const stuck = time.Hour

// outcome is what the steps of a lane came to.
type outcome struct {
	wall, cpu time.Duration
	failure   string   // the first test or package that failed
	closing   []string // go test's own lines, the last one of each package
	flaky     string   // tests that passed the second time
	out       *os.File // where a step prints
}

func (o *outcome) add(other outcome) {
	o.failure = cmp.Or(o.failure, other.failure)
	o.closing = append(o.closing, other.closing...)
	o.flaky += other.flaky
}

// print prints what a step has printed to a file.
func (o *outcome) print() error {
	text, err := os.ReadFile(o.out.Name())
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(text)
	return err
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
	err = errors.Join(err, printCosts(os.Stdout, costs(dir), sum.cpu, sum.wall), more())
	if sum.flaky != "" {
		fmt.Print("\nflaky:\n", sum.flaky)
	}
	for _, line := range sum.closing {
		fmt.Println(line)
	}
	return err
}

func runAll(ctx context.Context, steps []step, dir string) (sum outcome, err error) {
	begun, used := time.Now(), ofChildren()
	shared := &servers{dir: dir}
	var errs []error
	for rest := steps; len(rest) > 0 && ctx.Err() == nil; {
		n := 1
		for n < len(rest) && rest[n].beside {
			n++
		}
		errs = append(errs, runBeside(ctx, rest[:n], shared, &sum))
		rest = rest[n:]
	}
	errs = append(errs, shared.stop())
	sum.wall, sum.cpu = time.Since(begun), ofChildren()-used
	return sum, errors.Join(errs...)
}

// runBeside runs steps at the same time. What the first one prints is seen at once.
func runBeside(ctx context.Context, steps []step, shared *servers, sum *outcome) error {
	parts, errs := make([]outcome, len(steps)), make([]error, len(steps))
	var others sync.WaitGroup
	for n := range steps {
		parts[n].out = os.Stdout
		if n == 0 {
			continue
		}
		out, err := os.CreateTemp(shared.dir, "out")
		if err != nil {
			return err
		}
		defer out.Close()
		parts[n].out = out
		others.Go(func() { errs[n] = steps[n].run(ctx, shared, &parts[n]) })
	}
	errs[0] = steps[0].run(ctx, shared, &parts[0])
	others.Wait()
	for n := range parts {
		if n > 0 {
			errs[n] = errors.Join(errs[n], parts[n].print())
		}
		sum.add(parts[n])
	}
	return errors.Join(errs...)
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown\n"
	}
	return string(text)
}

func (s step) run(ctx context.Context, shared *servers, sum *outcome) error {
	command, env := s.command, slices.Concat(os.Environ(), s.env)
	flaky := filepath.Join(shared.dir, "flaky"+filepath.Base(sum.out.Name()))
	if command == nil {
		variables, err := shared.start(ctx)
		if err != nil {
			return err
		}
		env = slices.Concat(variables, s.env)
		if command, err = s.goTest(ctx, shared.dir, flaky); err != nil {
			return err
		}
	}
	fmt.Fprintln(sum.out, "+", strings.Join(append(slices.Clone(s.env), command...), " "))
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.Env = env
	cmd.Stderr = sum.out
	if sum.out == os.Stdout {
		cmd.Stderr = os.Stderr
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	ran, readErr := sum.read(out)
	err = cmd.Wait()
	if passed, missing := os.ReadFile(flaky); missing == nil {
		sum.flaky = string(passed)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", strings.Join(command[:min(3, len(command))], " "), err)
	case s.command == nil && ran == 0:
		return fmt.Errorf("no test ran in %v", s.packages)
	}
	return readErr
}

// goTest is the command that runs the step's packages.
func (s step) goTest(ctx context.Context, dir, flaky string) ([]string, error) {
	packages, err := list(ctx, s.packages)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	flags := append([]string{"-vet=off", "-count=1", "-timeout=" + stuck.String(),
		"-exec=" + self + " cost " + costs(dir)}, s.args...)
	if !s.rerun {
		return slices.Concat([]string{"go", "test"}, flags, packages), nil
	}
	return append([]string{"bin/gotestsum", "--format=standard-quiet", "--rerun-fails=1", "--rerun-fails-max-failures=3",
		"--rerun-fails-report=" + flaky, "--packages=" + strings.Join(packages, " "), "--"}, flags...), nil
}

// list resolves patterns to the import paths of packages with tests, in the order of the patterns, because go test begins
// packages in that order.
func list(ctx context.Context, patterns []string) (packages []string, err error) {
	var without []string
	for _, pattern := range patterns {
		name, negated := strings.CutPrefix(pattern, "!")
		out, err := exec.CommandContext(ctx, "go", "list", "-f", tested, name).Output()
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

// tested is a template of go list: the import path of a package with tests, and nothing of others.
const tested = "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}"

var (
	closingLine = regexp.MustCompile(`^(?:ok|FAIL|---) *\t(\S+)\t.*$`)
	failedTest  = regexp.MustCompile(`^\s*--- FAIL: (\S+)`)
)

// read passes the output of go test on and remembers what matters of it. ran is the number of packages that had tests.
func (o *outcome) read(out io.Reader) (ran int, err error) {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		fmt.Fprint(o.out, line)
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
