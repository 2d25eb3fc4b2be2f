package e2e

import (
	"encoding/json"
	"maps"
	"strings"
	"syscall"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// examinationTime limits how long the first examination after a start may take on a busy machine.
const examinationTime = testdrive.Patience

func TestDoctor(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		private := testdrive.Private(t, s.Flavour)
		env := testdrive.Environment(t, private)
		p := startPlatform(t, private, env)
		admin := p.admin(t)
		kept := p.provisioned(t, "shared-small", nil)
		_, c := kept.bound(t, nil)
		lost := p.makeOwn(t, "shared-small")
		_, left := lost.bound(t, nil)
		well := runDoctor(t, env).Expect(t, 0)
		other := maps.Clone(env)
		other["ENCRYPTION_KEYSET"] = strings.TrimSpace(testdrive.Run(t, nil, "keyset").Expect(t, 0).Stdout)
		runDoctor(t, other).Expect(t, 78) // it could not repair
		if !strings.Contains(well.Stdout, "All is well.") || !strings.Contains(well.Stdout, "databases 2, accounts 2") {
			t.Errorf("with nothing to find, doctor printed %q", well.Stdout)
		}

		// What PostgreSQL forgets, what a person drops, and what another broker has made.
		exec(t, admin, "DROP USER "+c.Username, "CREATE DATABASE db_aaaaaaaaaaaaaaaaaaaa",
			"CREATE USER u_aaaaaaaaaaaaaaaaaaaa")
		if _, err := openTasks(t, env).pool.Exec(t.Context(), "DELETE FROM instance WHERE id = $1", lost.id); err != nil {
			t.Fatal(err)
		}
		expectFindings(t, env, map[string]string{"orphan database": left.Database, "orphan account": left.Username,
			"missing account": c.Username, "unrecorded database": "db_aaaaaaaaaaaaaaaaaaaa",
			"unrecorded account": "u_aaaaaaaaaaaaaaaaaaaa"})
		expectPeriodicExamination(t, startPlatform(t, private, env), left, c)
		expectTenants(t, admin, 3, 2)

		reported := runDoctor(t, env).Expect(t, 1)
		expectLine(t, reported.Stdout, "orphan", "shared-1", left.Database, "--repair: drop it")
		if !strings.Contains(reported.Stderr, "problems that remain: 3") {
			t.Errorf("doctor printed %q", reported.Stderr)
		}
		repaired := runDoctor(t, env, "--repair").Expect(t, 0)
		expectLine(t, repaired.Stdout, "orphan", left.Database, "dropped")
		expectLine(t, repaired.Stdout, "missing", c.Username, "made again")
		c.open(t)
		expectTenants(t, admin, 2, 2) // kept's own, and the other broker's

		exec(t, admin, "DROP DATABASE `"+c.Database+"`")
		gone := runDoctor(t, env, "--repair").Expect(t, 1)
		expectLine(t, gone.Stdout, "missing", c.Database, "restore it from a backup")
		if strings.Contains(well.Stdout+reported.Stdout+repaired.Stdout+gone.Stdout, c.Password) {
			t.Error("doctor prints a password")
		}
	})
}

// runDoctor runs it as an operator does who is not given the platform's password.
func runDoctor(t *testing.T, env map[string]string, args ...string) testdrive.Output {
	t.Helper()
	env = maps.Clone(env)
	delete(env, "BROKER_USERNAME")
	delete(env, "BROKER_PASSWORD")
	return testdrive.Run(t, env, append([]string{"doctor"}, args...)...)
}

// expectFindings compares what doctor finds, names by problem and kind.
func expectFindings(t *testing.T, env map[string]string, want map[string]string) {
	t.Helper()
	out := runDoctor(t, env, "--json").Expect(t, 1)
	var report struct {
		Findings []struct{ Problem, Kind, Name string }
	}
	if err := json.Unmarshal([]byte(out.Stdout), &report); err != nil {
		t.Fatalf("%v: %s", err, out.Stdout)
	}
	found := map[string]string{}
	for _, f := range report.Findings {
		found[f.Problem+" "+f.Kind] = f.Name
	}
	if len(report.Findings) != len(want) || !maps.Equal(found, want) {
		t.Errorf("found %s", out.Stdout)
	}
}

// expectPeriodicExamination waits for a broker that has just been started to examine by itself.
func expectPeriodicExamination(t *testing.T, p platform, orphan, missing credentials) {
	t.Helper()
	const examined = "mysql_broker_examination_timestamp_seconds"
	testdrive.Eventually(t, examinationTime, "the broker examines", func() bool { return p.Scrape(t)[examined] != "" })
	expectFigures(t, p, map[string]string{
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
	if strings.Contains(p.Log(), "u_aaaaaaaaaaaaaaaaaaaa") {
		t.Error("the broker warns of what is another's")
	}
}

// expectLine fails the test unless one line has all of these parts.
func expectLine(t *testing.T, text string, parts ...string) {
	t.Helper()
	for line := range strings.Lines(text) {
		all := true
		for _, part := range parts {
			all = all && strings.Contains(line, part)
		}
		if all {
			return
		}
	}
	t.Errorf("no line with %q in:\n%s", parts, text)
}

// The doctor starts no server.
func TestDoctorStartsNothing(t *testing.T) {
	onePlatform(t, func(t *testing.T, p platform, env map[string]string) {
		i := p.makeOwn(t, "dedicated-small")
		p.Signal(t, syscall.SIGTERM)
		p.Wait(t)
		for _, pid := range testdrive.Mysqlds(t, env["LAUNCHER_DIR"]) {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		testdrive.Eventually(t, testdrive.Patience, "the server has ended", func() bool {
			return len(testdrive.Mysqlds(t, env["LAUNCHER_DIR"])) == 0
		})
		out := runDoctor(t, env, "--repair").Expect(t, 1)
		expectLine(t, out.Stdout, "unreachable", "dedicated server", i.id)
		if pids := testdrive.Mysqlds(t, env["LAUNCHER_DIR"]); len(pids) > 0 {
			t.Errorf("doctor started %v", pids)
		}
		i.via(startPlatform(t, p.server, env)).remove(t)
	})
}
