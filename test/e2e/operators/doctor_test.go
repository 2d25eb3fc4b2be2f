package operators

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/test/testdrive"
)

func TestDoctor(t *testing.T) {
	t.Parallel()
	private, env := testdrive.PrivateEnvironment(t)
	p := testdrive.StartPlatform(t, private, env)
	admin := p.Admin(t)
	kept := p.Provisioned(t, "shared-small", nil)
	_, c := kept.Bound(t, nil)
	lost := p.MakeOwn(t, "shared-small")
	_, left := lost.Bound(t, nil)
	well := testdrive.RunDoctor(t, env).Expect(t, 0)
	if !strings.Contains(well.Stdout, "All is well.") || !strings.Contains(well.Stdout, "databases 2, accounts 2") {
		t.Errorf("with nothing to find, doctor printed %q", well.Stdout)
	}

	// What PostgreSQL forgets, what a person drops, and what another broker has made.
	testdrive.Exec(t, admin, "DROP USER "+c.Username, "CREATE DATABASE db_aaaaaaaaaaaaaaaaaaaa",
		"CREATE USER u_aaaaaaaaaaaaaaaaaaaa")
	testdrive.OpenTasks(t, env).Exec(t, "DELETE FROM instance WHERE id = $1", lost.ID)
	expectPeriodicExamination(t, testdrive.StartPlatform(t, private, env), left, c)
	testdrive.ExpectTenants(t, admin, 3, 2)

	reported := testdrive.RunDoctor(t, env).Expect(t, 1)
	findings := [][]string{{"orphan", "shared-1", "database", left.Database, "--repair: drop it"},
		{"orphan", "account", left.Username}, {"missing", "account", c.Username},
		{"unrecorded", "database", "db_aaaaaaaaaaaaaaaaaaaa"}, {"unrecorded", "account", "u_aaaaaaaaaaaaaaaaaaaa"}}
	for _, line := range findings {
		testdrive.ExpectLine(t, reported.Stdout, line...)
	}
	if lines := strings.Count(reported.Stdout, "\n"); lines != 1+len(findings)+1 { // and the heading, and what was compared
		t.Errorf("doctor finds more: %s", reported.Stdout)
	}
	assert.Contains(t, reported.Stderr, "problems that remain: 3", "doctor")
	repaired := testdrive.RunDoctor(t, env, "--repair").Expect(t, 0)
	testdrive.ExpectLine(t, repaired.Stdout, "orphan", left.Database, "dropped")
	testdrive.ExpectLine(t, repaired.Stdout, "missing", c.Username, "made again")
	c.Open(t)
	testdrive.ExpectTenants(t, admin, 2, 2) // kept's own, and the other broker's

	testdrive.Exec(t, admin, "DROP DATABASE `"+c.Database+"`")
	gone := testdrive.RunDoctor(t, env, "--repair").Expect(t, 1)
	testdrive.ExpectLine(t, gone.Stdout, "missing", c.Database, "restore it from a backup")
	assert.False(t, strings.Contains(well.Stdout+reported.Stdout+repaired.Stdout+gone.Stdout, c.Password),
		"doctor prints a password")
}

// expectPeriodicExamination waits for a broker that has just been started to examine by itself.
func expectPeriodicExamination(t *testing.T, p testdrive.Platform, orphan, missing testdrive.Credentials) {
	const examined = "mysql_broker_examination_timestamp_seconds"
	testdrive.Eventually(t, "the broker examines", func() bool { return p.Scrape(t)[examined] != "" })
	testdrive.ExpectFigures(t, p, map[string]string{
		`mysql_broker_orphans{kind="database",server="shared-1"}`:           "1",
		`mysql_broker_orphans{kind="account",server="shared-1"}`:            "1",
		`mysql_broker_orphans{kind="dedicated_server",server=""}`:           "0",
		`mysql_broker_missing_resources{kind="database",server="shared-1"}`: "0",
		`mysql_broker_missing_resources{kind="account",server="shared-1"}`:  "1",
		`mysql_broker_missing_resources{kind="dedicated_server",server=""}`: "0",
	})
	for _, name := range []string{orphan.Database, orphan.Username, missing.Username} {
		p.AwaitLog(t, `"name":"`+name+`"`)
	}
	assert.False(t, strings.Contains(p.Log(), "u_aaaaaaaaaaaaaaaaaaaa"), "the broker warns of what is another's")
}
