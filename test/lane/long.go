package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// long runs suites until $BUDGET is used up. A suite that has begun runs to its end.
func long(ctx context.Context, kept results) error {
	budget, err := time.ParseDuration(cmp.Or(os.Getenv("BUDGET"), "2h"))
	if err != nil {
		return fmt.Errorf("BUDGET: %w", err)
	}
	all, err := kept.all()
	if err != nil {
		return err
	}
	chosen, err := matching(suites, os.Getenv("SUITES"))
	if err != nil {
		return err
	}
	var errs []error
	end := time.Now().Add(budget)
	for _, s := range byNeed(chosen, all) {
		if ctx.Err() != nil || time.Now().After(end) {
			break
		}
		errs = append(errs, keep(ctx, kept, s, 0))
	}
	return errors.Join(append(errs, kept.report(ctx, os.Stdout))...)
}

// matching are the suites whose names match one of the words; all, if there is none.
func matching(suites []suite, words string) (chosen []suite, err error) {
	if words == "" {
		return suites, nil
	}
	for _, s := range suites {
		for word := range strings.SplitSeq(words, ",") {
			ok, err := filepath.Match(word, s.name)
			if err != nil {
				return nil, fmt.Errorf("SUITES: %w", err)
			}
			if ok {
				chosen = append(chosen, s)
				break
			}
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no suite is called %s", words)
	}
	return chosen, nil
}

// keep runs a suite and adds its result. One that was interrupted has none.
func keep(ctx context.Context, kept results, s suite, load int) error {
	commit, err := head(ctx)
	if err != nil {
		return fmt.Errorf("which commit this is: %w", err)
	}
	dir, err := os.MkdirTemp("", "lane")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Printf("\n=== %s\n", s.name)
	at := time.Now().UTC().Truncate(time.Second)
	sum, failed := runAll(ctx, s.steps, dir)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err = printCosts(os.Stdout, costs(dir), sum.cpu, sum.wall)
	for _, line := range sum.closing {
		fmt.Println(line)
	}
	one := result{Suite: s.name, Passed: failed == nil, At: at, Commit: commit, Seconds: int(sum.wall.Seconds()),
		CPU: int(sum.cpu.Seconds()), Load: load}
	if failed != nil {
		one.Failure = cmp.Or(sum.failure, failed.Error())
	}
	return errors.Join(failed, err, kept.add(one))
}

// repeat runs the lane test $COUNT times, beside $LOAD processes that do nothing but use a processor. Without either,
// nothing is kept.
func repeat(ctx context.Context, kept results) error {
	count, load, err := countAndLoad()
	if err != nil {
		return err
	}
	if hasRoom(memory) {
		if err := os.Setenv("TMPDIR", memory); err != nil {
			return err
		}
	}
	if count == 0 && load == 0 {
		return runSteps(ctx, testSteps, func() error { return nil })
	}
	stop, err := burn(ctx, load)
	if err != nil {
		return err
	}
	defer stop()
	for n := range max(count, 1) {
		if err := keep(ctx, kept, suite{name: "make test", steps: testSteps}, load); err != nil {
			return fmt.Errorf("run %d: %w", n+1, err)
		}
	}
	return nil
}

// memory is where Linux keeps files in memory. Servers whose files are there take a fifth less processor time than on a
// disk, which is where CI has them.
const memory = "/dev/shm"

// hasRoom reports whether a directory has room for the files of all servers that run at once, and takes programs.
func hasRoom(dir string) bool {
	var fs unix.Statfs_t
	const enough = 6 << 30
	return unix.Statfs(dir, &fs) == nil && fs.Bavail*uint64(fs.Bsize) >= enough && fs.Flags&unix.ST_NOEXEC == 0
}

func countAndLoad() (count, load int, err error) {
	count, err = strconv.Atoi(cmp.Or(os.Getenv("COUNT"), "0"))
	if err != nil {
		return 0, 0, fmt.Errorf("COUNT: %w", err)
	}
	load, err = strconv.Atoi(cmp.Or(os.Getenv("LOAD"), "0"))
	if err != nil {
		return 0, 0, fmt.Errorf("LOAD: %w", err)
	}
	return count, load, nil
}

// burn starts processes that do nothing but use a processor, at most for as long as this one lives.
func burn(ctx context.Context, n int) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var running []*exec.Cmd
	stop = func() {
		cancel()
		for _, cmd := range running {
			_ = cmd.Wait() // it was killed
		}
	}
	for range n {
		cmd := exec.CommandContext(ctx, "sh", "-c", "while kill -0 $PPID; do :; done")
		if err := cmd.Start(); err != nil {
			stop()
			return nil, err
		}
		running = append(running, cmd)
	}
	return stop, nil
}
