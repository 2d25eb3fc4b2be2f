package corpus

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/servers"
)

func TestMain(m *testing.M) {
	servers.Main(m, func() error { return fleet.Stop(context.Background()) },
		func() error { return logging.Stop(context.Background()) })
}

// The servers of TestCorpus and of TestReplays.
var (
	fleet   servers.Fleet
	logging = servers.Fleet{BinaryLogs: true}
)

// sampled is how many files TestSample takes. It fails with the seed; others are in the lane long.
const (
	sampled = 12
	seed    = 30
)

// createsEvent matches files with events, which run on the servers of other tests.
var createsEvent = regexp.MustCompile(`(?i)\bcreate\s+(?:definer\s*=\s*\S+\s+)?event\b`)

// TestSample copies and restores what some files of the suites create.
func TestSample(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		r := newRun(t, s)
		var files []string
		choice := rand.New(rand.NewPCG(seed, 0))
		for _, n := range choice.Perm(len(r.suite)) {
			text, err := os.ReadFile(r.suite[n])
			require.NoError(t, err)
			if len(files) < sampled && len(text) < 20000 && !createsEvent.Match(text) {
				files = append(files, r.suite[n])
			}
		}
		r.check(t, (*run).files, files)
	})
}

// TestCorpus copies and restores what all files create, on servers of its own, later ones too. CORPUS_FILES, a pattern
// of their names, chooses.
func TestCorpus(t *testing.T) { forEachServer(t, &fleet, nil, (*run).files) }

// TestReplays replays what binary logs have of all files, in the same way. Nothing that it tests depends on when a
// server writes its logs to the disk.
func TestReplays(t *testing.T) {
	forEachServer(t, &logging, []string{"sync_binlog = 0", "innodb_flush_log_at_trx_commit = 0"}, (*run).replays)
}

func forEachServer(t *testing.T, fleet *servers.Fleet, settings []string,
	test func(r *run, ctx context.Context, files []string) error) {
	t.Helper()
	if os.Getenv("LONG") == "" {
		t.Skip("takes hours: set LONG=1")
	}
	pattern, err := regexp.Compile(os.Getenv("CORPUS_FILES"))
	require.NoError(t, err)
	t.Setenv("MYSQLD", os.Getenv("MYSQLD")+":"+os.Getenv("LATER_MYSQLD"))
	all, err := fleet.AllMySQL(t.Context())
	require.NoError(t, err)
	for _, s := range all {
		t.Run(s.Flavour, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, s)
			r.settings = append([]string{"event_scheduler = OFF", "table_definition_cache = 20000", "table_open_cache = 20000"},
				settings...)
			r.check(t, test, slices.DeleteFunc(r.suite, func(file string) bool { return !pattern.MatchString(r.short(file)) }))
		})
	}
}

func newRun(t *testing.T, s servers.MySQL) *run {
	t.Helper()
	root := filepath.Join(os.Getenv("CORPUS"), s.Flavour)
	if _, err := os.Stat(root); err != nil {
		require.Empty(t, os.Getenv("REQUIRE_CORPUS"), "%v", err)
		t.Skip("make corpus installs the suites")
	}
	suite, err := list(root)
	require.NoError(t, err)
	admin := s.Admin(t)
	charset := "utf8mb4"
	if s.Flavour == mysqld.MariaDB {
		charset = "latin1"
	}
	return &run{server: s, admin: admin, root: root, suite: suite, charset: charset, log: t.Logf, same: map[string]bool{},
		refused: map[string]bool{}, different: map[string]bool{}}
}

// check fails for each file that differs.
func (r *run) check(t *testing.T, test func(r *run, ctx context.Context, files []string) error, files []string) {
	t.Helper()
	require.NoError(t, test(r, t.Context(), files))
	var version string
	require.NoError(t, r.admin.QueryRow("SELECT VERSION()").Scan(&version))
	t.Logf("%s: %s", version, r.summary())
	assert.NotEmpty(t, r.same, "no file has created anything")
	for file := range r.different {
		t.Errorf("%s: CORPUS_FILES=%s", version, strings.TrimSuffix(filepath.Base(file), ".test"))
	}
}
