package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// costs is the file with what was measured.
func costs(dir string) string { return filepath.Join(dir, "costs") }

// measured runs a test binary, as go test's -exec, and adds a line to the file of costs: the directory of its package,
// and the seconds of processor time that it and everything it started used. What it leaves running is inherited, so
// that it is counted as far as it has ended.
func measured(costs string, command []string) (code int) {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, "lane cost:", err)
		return 1
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fail(err)
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return fail(err)
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s) // fails only where it has ended
		}
	}()
	err := cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return fail(err)
	}
	for { // what was orphaned and has ended
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != nil || pid == 0 {
			break
		}
	}
	if err := addCost(costs); err != nil {
		return fail(err)
	}
	return max(cmd.ProcessState.ExitCode(), -cmd.ProcessState.ExitCode()) // -1 after a signal
}

func addCost(costs string) error {
	dir, err := os.Getwd() // go test runs a package's tests in its directory
	if err != nil {
		return err
	}
	file, err := os.OpenFile(costs, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "%s\t%.1f\n", dir, ofChildren().Seconds())
	return errors.Join(err, file.Close())
}

// ofChildren is the processor time of every child that has ended, with what those had waited for.
func ofChildren() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &usage); err != nil {
		panic(err) // only for an unknown first argument
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// printCosts prints a table of the packages and of the servers that they share, the dearest first, and what compilers
// and linters used beside them.
func printCosts(w io.Writer, costs string, total, wall time.Duration) error {
	text, err := os.ReadFile(costs)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	sums := map[string]float64{}
	rest := total.Seconds()
	for line := range strings.Lines(string(text)) {
		dir, seconds, _ := strings.Cut(strings.TrimSpace(line), "\t")
		n, err := strconv.ParseFloat(seconds, 64)
		if err != nil {
			return fmt.Errorf("%s: %w", costs, err)
		}
		if short, err := filepath.Rel(root, dir); err == nil {
			dir = short
		}
		if dir == "." { // of no package
			dir = "servers that tests share"
		}
		sums[dir] += n
		rest -= n
	}
	packages := make([]string, 0, len(sums))
	for dir := range sums {
		packages = append(packages, dir)
	}
	slices.SortFunc(packages, func(a, b string) int { return cmp.Or(cmp.Compare(sums[b], sums[a]), cmp.Compare(a, b)) })
	fmt.Fprintf(w, "\nProcessor time in seconds: %.0f in %s\n", total.Seconds(), wall.Round(time.Second))
	fmt.Fprintf(w, "%8.1f  compilers, linters\n", rest)
	for _, dir := range packages {
		fmt.Fprintf(w, "%8.1f  %s\n", sums[dir], dir)
	}
	return nil
}
