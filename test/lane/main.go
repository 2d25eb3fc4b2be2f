// Command lane runs the tests of one of the project's lanes, prints what each package cost in processor time, and ends
// with go test's own lines.
//
//	go run ./test/lane test      what `make test` runs
//	go run ./test/lane ci        what .ci/run runs
//	go run ./test/lane long      suites of `make test-long`, the one that passed longest ago first, for $BUDGET
//	go run ./test/lane report    when each suite of `make test-long` passed last
//
// $COUNT repeats the lane test, and $LOAD has so many processes beside it that do nothing but use a processor; both
// runs are kept in the results. $SUITES, words with * as in file names, chooses among the suites of the lane long.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: lane test|ci|long|report")
		os.Exit(2)
	}
	if os.Args[1] == "cost" { // as go test's -exec
		os.Exit(measured(os.Args[2], os.Args[3:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Println("FAIL:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, lane string) error {
	kept := results{path: filepath.Join("test", "lane", "results.jsonl")}
	switch lane {
	case "test":
		return repeat(ctx, kept)
	case "ci":
		return ci(ctx, kept)
	case "long":
		return long(ctx, kept)
	case "report":
		return kept.report(ctx, os.Stdout)
	}
	return fmt.Errorf("no lane is called %q", lane)
}

// ci fails as well where a suite of the lane long failed when it ran last.
func ci(ctx context.Context, kept results) error {
	err := runSteps(ctx, ciSteps, func() error { return kept.report(ctx, os.Stdout) })
	failed, readErr := kept.failing()
	if len(failed) > 0 {
		readErr = fmt.Errorf("suites of make test-long that failed when they ran last: %v", failed)
	}
	return errors.Join(err, readErr)
}
