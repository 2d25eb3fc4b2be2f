package main

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestSuiteThatPassedLongestAgoComesFirst(t *testing.T) {
	t.Parallel()
	day := func(n int) time.Time { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC) }
	all := []result{{Suite: "old", Passed: true, At: day(1)}, {Suite: "new", Passed: true, At: day(2)},
		{Suite: "red", Passed: true, At: day(3)}, {Suite: "red", At: day(9)}, {Suite: "new", Passed: true, At: day(5)}}
	var order []string
	for _, s := range byNeed([]suite{{name: "new"}, {name: "red"}, {name: "old"}, {name: "never"}}, all) {
		order = append(order, s.name)
	}
	if want := []string{"never", "old", "red", "new"}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
}

func TestResultsAreKept(t *testing.T) {
	t.Parallel()
	kept := results{path: filepath.Join(t.TempDir(), "results.jsonl")}
	for _, passed := range []bool{true, false} {
		if err := kept.add(result{Suite: suites[0].name, Passed: passed, Commit: "HEAD", Failure: "TestX"}); err != nil {
			t.Fatal(err)
		}
	}
	failed, err := kept.failing()
	if want := []string{suites[0].name}; err != nil || !slices.Equal(failed, want) {
		t.Errorf("failing: %v, %v, want %v", failed, err, want)
	}
	var report strings.Builder
	if err := kept.report(t.Context(), &report); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{suites[0].name + " ", "0 changes since", "FAILED since: TestX", suites[1].name + " ", "never"} {
		if !strings.Contains(report.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, &report)
		}
	}
}

func TestReadKeepsClosingLines(t *testing.T) {
	t.Parallel()
	sum := outcome{out: os.Stdout}
	first := "ok  \tp/a\t1.2s\n?   \tp/none\t[no test files]\nok  \tp/empty\t0.1s [no tests to run]\n" +
		"    --- FAIL: TestB/sub (0.1s)\nFAIL\nFAIL\tp/b\t3.4s\n"
	ran, err := sum.read(strings.NewReader(first))
	if err != nil || ran != 1 || sum.failure != "TestB/sub" {
		t.Errorf("%d packages ran, failure %q, %v", ran, sum.failure, err)
	}
	if _, err := sum.read(strings.NewReader("ok  \tp/b\t0.5s\n")); err != nil { // its failed test passed when it ran again
		t.Fatal(err)
	}
	want := []string{"ok  \tp/a\t1.2s", "ok  \tp/empty\t0.1s [no tests to run]", "ok  \tp/b\t0.5s"}
	if !slices.Equal(sum.closing, want) {
		t.Errorf("closing lines %q, want %q", sum.closing, want)
	}
}

func TestSuitesAreChosenByName(t *testing.T) {
	t.Parallel()
	chosen, err := matching([]suite{{name: "chaos on a"}, {name: "soak"}, {name: "model"}}, "chaos*,soak")
	if err != nil || len(chosen) != 2 {
		t.Errorf("chosen: %v, %v", chosen, err)
	}
	if _, err := matching(suites, "nothing"); err == nil {
		t.Error("a name of no suite is accepted")
	}
}

// The first step ends only when the second one has begun, and both fail.
func TestStepsBesideEachOther(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	begun := filepath.Join(dir, "begun")
	if err := syscall.Mkfifo(begun, 0o600); err != nil {
		t.Fatal(err)
	}
	sum, err := runAll(t.Context(), []step{{command: []string{"sh", "-c", "read -r _ <" + begun + "; echo '--- FAIL: First'; exit 1"}},
		{command: []string{"sh", "-c", "echo >" + begun + "; echo 'ok  \tp\t1s'; exit 2"}, beside: true}}, dir)
	if err == nil || !strings.Contains(err.Error(), "exit status 1") || !strings.Contains(err.Error(), "exit status 2") {
		t.Errorf("the steps ended like this: %v", err)
	}
	if sum.failure != "First" || !slices.Equal(sum.closing, []string{"ok  \tp\t1s"}) {
		t.Errorf("failure %q, closing lines %q", sum.failure, sum.closing)
	}
}

// go test writes no test binaries of one name to one folder.
func TestKeptBinariesHaveDifferentNames(t *testing.T) {
	t.Parallel()
	for _, s := range testSteps {
		if !slices.ContainsFunc(s.args, func(arg string) bool { return strings.HasPrefix(arg, "-o=") }) {
			continue
		}
		packages, err := list(t.Context(), inModule(s.packages))
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]string{}
		for _, p := range packages {
			if other, twice := seen[path.Base(p)]; twice {
				t.Errorf("%s and %s", other, p)
			}
			seen[path.Base(p)] = p
		}
	}
}

// inModule are patterns that mean the same in any folder of the module.
func inModule(patterns []string) (all []string) {
	for _, p := range patterns {
		all = append(all, strings.Replace(p, "./", "mysql-broker/", 1))
	}
	return all
}
