package main

import (
	"fmt"
	"slices"
	"strings"
)

// What must not run beside much else, or takes longer than the lane.
var (
	// longOnly belong to the lane long alone: they kill brokers and servers hundreds of times, or need a Kubernetes node.
	longOnly = []string{"./test/chaos", "./test/ha", "./test/model", "./test/e2e/slow", "./test/e2e/kubernetes"}
	// drivers run programs that take long: compilers of six languages, a browser, systemd's and Prometheus' checkers.
	drivers = []string{"./test/connect", "./test/browser", "./test/deploy", "./deploy/prometheus"}
	// slow have tests that wait for long, and so begin first.
	slow = []string{"./provisioner/doctor", "./provisioner/task", "./provisioner/launcher/process"}
	// stage has fault points, with which it is built.
	stage = []string{"./test/stage"}
	// corpus copies a sample of what the servers' own test suites create. What it covers by kind, provisioner/transfer tests.
	corpus = []string{"./test/corpus"}
	// audit tests the audit that other tests rely on. CI runs it on both flavours, and so in a step of its own.
	audit = []string{"./test/audit"}
	// contract runs the compiled broker as platforms see it; manners as tenants and operators do.
	contract = []string{"./test/e2e"}
	manners  = []string{"./test/e2e/backups", "./test/e2e/operators", "./test/e2e/tenants"}
	// broker run the compiled broker, too. It takes several times as long with the race detector.
	broker = slices.Concat(manners, contract, []string{"./test/soak", "./cmd/mysql-broker"})
)

// without are patterns that leave packages out.
func without(lists ...[]string) (patterns []string) {
	for _, list := range lists {
		for _, name := range list {
			patterns = append(patterns, "!"+name)
		}
	}
	return patterns
}

// How many packages and tests run at once. Most tests keep a processor busy; those that drive brokers wait, too, and
// test/admit limits how many of those there are.
var (
	few  = []string{"-p=2", "-parallel=4"}
	more = []string{"-p=3", "-parallel=8"}
)

// keepLinked has go test keep the test binaries, and link only those anew whose sources have changed. As without it, they
// have no symbols for debuggers.
func keepLinked(dir string) []string { return []string{"-o=" + dir, "-ldflags=-s -w"} }

// onOne runs tests of servers.EachMySQL on one flavour each.
var onOne = []string{"TEST_ON_ONE_MYSQL=1"}

// seldom has programs of Go, linkers too, collect garbage less often: memory is there, and processors are what tests wait
// for. Tests that measure memory run without it.
var seldom = []string{"GOGC=400"}

// third has brokers killed at every third point.
var third = append([]string{"STAGE=3"}, onOne...)

// testSteps are `make test`.
var testSteps = []step{
	{command: []string{"make", "--no-print-directory", "vet"}},
	{packages: slices.Concat(slow, []string{"./..."}, without(longOnly, drivers, stage, contract, manners, corpus, []string{"./test/soak"})),
		args: slices.Concat(keepLinked("bin/tests/"), few), env: slices.Concat(onOne, seldom)},
	{packages: stage, args: append(keepLinked("bin/tests/faults/"), "-tags=faults"), env: slices.Concat(third, seldom), beside: true},
	{packages: contract, args: slices.Concat(keepLinked("bin/tests/"), more), env: slices.Concat(onOne, seldom), beside: true},
}

// ciSteps are what .ci/run runs.
var ciSteps = []step{
	{command: []string{"make", "--no-print-directory", "vet", "analysis"}},
	{packages: slices.Concat(slow, []string{"./..."}, without(longOnly, drivers, broker, audit, stage, []string{"./provisioner/launcher/process"})),
		args: append([]string{"-race"}, few...), env: slices.Concat([]string{"CGO_ENABLED=1"}, seldom), rerun: true},
	{packages: stage, args: []string{"-tags=faults"}, env: slices.Concat(third, seldom), beside: true},
	{packages: slices.Concat(broker, drivers, []string{"./provisioner/launcher/process"}),
		args: more, env: onOne, rerun: true},
	{packages: audit, args: more, rerun: true},
}

// suite is what the lane long runs at once.
type suite struct {
	name  string
	tests []string // paths, those with ":!" before them left out: changes to them make its last result older
	steps []step
}

// oneSuite runs tests of one package with flags that do not limit what they do.
func oneSuite(name, pkg string, tests, env []string, args ...string) suite {
	return suite{name, slices.Concat(tests, []string{pkg}), []step{{packages: []string{pkg}, env: slices.Concat(env, []string{"LONG=1"}),
		args: append([]string{"-p=1", "-parallel=3"}, args...)}}}
}

// onNode runs a command beside a Kubernetes node.
func onNode(name, command string, tests ...string) suite {
	return suite{name, slices.Concat(kubernetes, tests),
		[]step{{command: []string{"make", "--no-print-directory", "kubernetes", "RUN=" + command}}}}
}

// corpusSuites copy and restore, or replay, what the servers' own test suites create. Their files are divided by the
// first letters of their names, so that a suite takes well below an hour.
func corpusSuites() (all []suite) {
	install := step{command: []string{"sh", "-c", `exec test/corpus/install.sh "$CORPUS"`}}
	for _, done := range [][2]string{{"copied", "TestCorpus"}, {"replayed", "TestReplays"}} {
		for _, server := range []string{"MariaDB", "MySQL"} {
			for _, files := range [][2]string{{"a to c", "[^d-z]"}, {"d to h", "[d-h]"}, {"i", "i"}, {"j to m", "[j-m]"},
				{"n to r", "[n-r]"}, {"s to z", "[s-z]"}} {
				one := oneSuite(fmt.Sprintf("corpus %s %s on %s", files[0], done[0], server), "./test/corpus",
					append([]string{"provisioner/transfer"}, replays...),
					[]string{"REQUIRE_CORPUS=1", "CORPUS_FILES=/" + files[1] + "[^/]*$"}, "-v",
					"-run="+done[1]+"/"+strings.ToLower(server))
				one.steps = append([]step{install}, one.steps...)
				all = append(all, one)
			}
		}
	}
	return all
}

// What suites test.
var (
	operations = []string{"provisioner", "store", ":!provisioner/launcher"}
	clusters   = []string{"provisioner/mysqladmin", "provisioner/fleet", "provisioner/wsrep", "store"}
	kubernetes = []string{"provisioner/launcher", "test/launchertest", "test/kubernetes", "deploy/kubernetes",
		":!provisioner/launcher/process"}
	processes  = []string{"provisioner/launcher", "test/launchertest", ":!provisioner/launcher/kubernetes"}
	replays    = []string{"provisioner/binlog", "test/binlogs", "test/compare"}
	everything = []string{"broker", "cmd", "provisioner", "store"}
)

// generated is how many statements are replayed and compared on each server.
var generated = []string{"REPLAY_STEPS=100000"}

var suites = append([]suite{
	oneSuite("chaos on MariaDB", "./test/chaos", operations, nil, "-run=TestChaos/mariadb"),
	oneSuite("chaos on MySQL", "./test/chaos", operations, nil, "-run=TestChaos/mysql"),
	oneSuite("model on MariaDB", "./test/model", operations, []string{"CHAOS=long"}, "-run=TestModel/mariadb"),
	oneSuite("model on MySQL", "./test/model", operations, []string{"CHAOS=long"}, "-run=TestModel/mysql"),
	onNode("chaos in Kubernetes", "go test -count=1 -parallel=3 -timeout=5h -run=TestChaos/.*/Kubernetes ./test/chaos",
		"test/chaos"),
	oneSuite("high availability", "./test/ha", clusters, []string{"HA=long"}, "-skip=TestPrimaryKills"),
	oneSuite("primaries killed on MariaDB", "./test/ha", clusters, nil, "-run=TestPrimaryKills/mariadb"),
	oneSuite("primaries killed on MySQL", "./test/ha", clusters, nil, "-run=TestPrimaryKills/mysql"),
	{"Kubernetes manifests", []string{"deploy/kubernetes", "test/kubernetes/manifests"},
		[]step{{command: []string{"make", "--no-print-directory", "manifests"}}}},
	onNode("Kubernetes node", "test/kubernetes/node.sh"),
	{"release in Kubernetes", []string{"deploy/release", "deploy/kubernetes", "test/kubernetes"}, []step{
		{command: []string{"make", "--no-print-directory", "release-packages", "release", "VERSION=1.0.0"}},
		{command: []string{"make", "--no-print-directory", "kubernetes", "RUN=test/kubernetes/release.sh"}}}},
	{"systemd", []string{"deploy/systemd", "test/systemd"},
		[]step{{command: []string{"make", "--no-print-directory", "systemd"}}}},
	oneSuite("release", "./test/deploy", []string{"deploy/release", "manifest.yml", "catalog.yml"}, nil, "-run=TestRelease"),
	oneSuite("stage on every flavour", "./test/stage", operations, []string{"CGO_ENABLED=1"}, "-tags=faults", "-race"),
	oneSuite("soak", "./test/soak", everything, []string{"SOAK=15m"}),
	{"end to end on every flavour", everything, []step{{packages: slices.Concat(contract, manners), args: more,
		env: []string{"LONG=1"}}}},
	oneSuite("generated histories on MariaDB", "./provisioner/binlog", replays, generated, "-run=TestRandomHistories//mariadb"),
	oneSuite("generated histories on MySQL", "./provisioner/binlog", replays, generated, "-run=TestRandomHistories//mysql"),
	oneSuite("slow end to end", "./test/e2e/slow", everything, nil),
	oneSuite("process launcher on every flavour", "./provisioner/launcher/process", processes, nil),
}, corpusSuites()...)
