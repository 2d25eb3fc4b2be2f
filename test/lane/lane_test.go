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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
	want := []string{"never", "old", "red", "new"}
	assert.True(t, slices.Equal(order, want), "order %v, want %v", order, want)
}

func TestResultsAreKept(t *testing.T) {
	t.Parallel()
	kept := results{path: filepath.Join(t.TempDir(), "results.jsonl")}
	for _, passed := range []bool{true, false} {
		require.NoError(t, kept.add(result{Suite: suites[0].name, Passed: passed, Commit: "HEAD", Failure: "TestX"}))
	}
	failed, err := kept.failing()
	want := []string{suites[0].name}
	assert.True(t, err == nil && slices.Equal(failed, want), "failing: %v, %v, want %v", failed, err, want)
	var report strings.Builder
	require.NoError(t, kept.report(t.Context(), &report))
	for _, want := range []string{suites[0].name + " ", "0 changes since", "FAILED since: TestX", suites[1].name + " ", "never"} {
		assert.True(t, strings.Contains(report.String(), want), "the report lacks %q:\n%s", want, &report)
	}
}

func TestReadKeepsClosingLines(t *testing.T) {
	t.Parallel()
	sum := outcome{out: os.Stdout}
	first := "ok  \tp/a\t1.2s\n?   \tp/none\t[no test files]\nok  \tp/empty\t0.1s [no tests to run]\n" +
		"    --- FAIL: TestB/sub (0.1s)\nFAIL\nFAIL\tp/b\t3.4s\n"
	ran, err := sum.read(strings.NewReader(first))
	assert.True(t, err == nil && ran == 1 && sum.failure == "TestB/sub",
		"%d packages ran, failure %q, %v", ran, sum.failure, err)
	if _, err := sum.read(strings.NewReader("ok  \tp/b\t0.5s\n")); err != nil { // its failed test passed when it ran again
		t.Fatal(err)
	}
	want := []string{"ok  \tp/a\t1.2s", "ok  \tp/empty\t0.1s [no tests to run]", "ok  \tp/b\t0.5s"}
	assert.True(t, slices.Equal(sum.closing, want), "closing lines %q, want %q", sum.closing, want)
}

func TestSuitesAreChosenByName(t *testing.T) {
	t.Parallel()
	chosen, err := matching([]suite{{name: "chaos on a"}, {name: "soak"}, {name: "model"}}, "chaos*,soak")
	assert.True(t, err == nil && len(chosen) == 2, "chosen: %v, %v", chosen, err)
	_, err = matching(suites, "nothing")
	assert.Error(t, err, "a name of no suite is accepted")
}

// The first step ends only when the second one has begun, and both fail.
func TestStepsBesideEachOther(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	begun := filepath.Join(dir, "begun")
	require.NoError(t, syscall.Mkfifo(begun, 0o600))
	sum, err := runAll(t.Context(), []step{{command: []string{"sh", "-c", "read -r _ <" + begun + "; echo '--- FAIL: First'; exit 1"}},
		{command: []string{"sh", "-c", "echo >" + begun + "; echo 'ok  \tp\t1s'; exit 2"}, beside: true}}, dir)
	if err == nil || !strings.Contains(err.Error(), "exit status 1") || !strings.Contains(err.Error(), "exit status 2") {
		t.Errorf("the steps ended like this: %v", err)
	}
	assert.True(t, sum.failure == "First" && slices.Equal(sum.closing, []string{"ok  \tp\t1s"}),
		"failure %q, closing lines %q", sum.failure, sum.closing)
}

// go test writes no test binaries of one name to one folder.
func TestKeptBinariesHaveDifferentNames(t *testing.T) {
	t.Parallel()
	for _, s := range testSteps {
		if !slices.ContainsFunc(s.args, func(arg string) bool { return strings.HasPrefix(arg, "-o=") }) {
			continue
		}
		packages, err := list(t.Context(), inModule(s.packages))
		require.NoError(t, err)
		seen := map[string]string{}
		for _, p := range packages {
			other, twice := seen[path.Base(p)]
			assert.False(t, twice, "%s and %s", other, p)
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
