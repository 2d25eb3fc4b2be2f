package slow

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// upgradeRow is a row of `mysql-broker upgrade --json`.
type upgradeRow struct {
	InstanceID string `json:"instance_id"`
	Server     string
	From, To   string
	Result     string
	Reason     string
	Seconds    float64
}

// TestUpgradeAll upgrades several servers by one command: through Cloud Controller where the platform is Cloud Foundry,
// and by tasks elsewhere. A canary fails.
func TestUpgradeAll(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		env := testdrive.Environment(t, s)
		p := testdrive.StartPlatform(t, s, env)
		present, err := mysqld.ReadBinary(env["LAUNCHER_MYSQLD"])
		if err != nil {
			t.Fatal(err)
		}
		all := make([]testdrive.Instance, 4)
		for n := range all {
			all[n] = p.OwnInstance(t, "dedicated-small")
		}
		slices.SortFunc(all, func(a, b testdrive.Instance) int { return cmp.Compare(a.ID, b.ID) }) // as the command does
		var making sync.WaitGroup
		for n := range all {
			fields := body{}
			if n == 0 {
				fields["context"] = body{"platform": "cloudfoundry", "organization_guid": "an-organization", "space_guid": "a-space"}
			}
			making.Go(func() {
				r := all[n].Provision(t, testdrive.Async, fields)
				all[n].AwaitOperation(t, all[n].ID, r.String("operation"))
			})
		}
		making.Wait()
		p.Kill(t)

		next := servers.Later(t, present)
		fails := filepath.Join(env["LAUNCHER_DIR"], "fails")
		env["LAUNCHER_MYSQLD"] = present.Path + "," + failingFor(t, env["LAUNCHER_DIR"], present, next, fails)
		p = testdrive.StartPlatform(t, s, env)
		controller := startUpgradeController(t, p, all[0])
		o := p.Operator(env)
		upgrade := func(status int, args ...string) (rows []upgradeRow) {
			t.Helper()
			out := o.Run(t, status, append([]string{"upgrade", "--json"}, args...)...)
			if err := json.Unmarshal([]byte(out.Stdout), &rows); err != nil {
				t.Fatalf("%v: %q %q", err, out.Stdout, out.Stderr)
			}
			slices.SortFunc(rows, func(a, b upgradeRow) int { return cmp.Compare(a.InstanceID, b.InstanceID) })
			return rows
		}
		due := upgrade(0)
		if len(due) != len(all) || due[0].From != present.Version || due[0].To != next.Version || due[0].Result != "" {
			t.Fatalf("due are %+v", due)
		}
		for _, none := range [][]string{{"--plan", "dedicated-large"}, {"--space", "no-such-space"}} {
			if rows := upgrade(0, none...); len(rows) != 0 {
				t.Errorf("%q: %+v", none, rows)
			}
		}
		out := o.Run(t, 1, "upgrade", "--all")
		if !strings.Contains(out.Stderr, "CLOUD_CONTROLLER_CLIENT") {
			t.Errorf("without a client: %+v", out)
		}
		maps.Copy(o.Env, map[string]string{"CLOUD_CONTROLLER_URL": controller.URL,
			"CLOUD_CONTROLLER_CLIENT": controllerClient, "CLOUD_CONTROLLER_CLIENT_SECRET": controllerSecret})

		if err := os.WriteFile(fails, []byte(due[0].Server), 0o644); err != nil {
			t.Fatal(err)
		}
		rows := upgrade(1, "--all", "--canaries", "2", "--max-in-flight", "2")
		for n, want := range []string{"failed", "upgraded", "not begun", "not begun"} {
			if rows[n].Result != want || want == "failed" && !strings.Contains(rows[n].Reason, "could not be upgraded") {
				t.Errorf("row %d: %+v, want %s", n, rows[n], want)
			}
		}
		if err := os.Remove(fails); err != nil {
			t.Fatal(err)
		}
		// A developer's update of the last one is in progress. It ends when the one before has been upgraded.
		ts, last := testdrive.OpenTasks(t, env), due[len(due)-1].InstanceID
		ts.Exec(t, `INSERT INTO task (instance_id, kind, plan_id, run_at)
			SELECT id, 'update', plan_id, now() + interval '1 h' FROM instance WHERE id = '`+last+`'`)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			testdrive.Eventually(t, limits.Stuck, "the others are upgraded", func() (others bool) {
				ts.Scan(t, &others, "SELECT count(*) = 2 FROM instance WHERE server_version = '"+next.Version+"'")
				return others
			})
			ts.Exec(t, "UPDATE task SET state = 'succeeded', finished_at = now() WHERE instance_id = '"+last+"' AND state = 'in progress'")
		}()
		controller.setBusy(true)
		rows = upgrade(1, "--all", "--canaries", "1", "--max-in-flight", "2", "--space", "a-space")
		<-ended
		for n, want := range []string{"skipped", "upgraded", "upgraded"} {
			if len(rows) != 3 || rows[n].Result != want || want == "upgraded" && rows[n].Seconds == 0 {
				t.Fatalf("the second time: %+v", rows)
			}
		}
		controller.setBusy(false)
		if rows = upgrade(0, "--all"); len(rows) != 1 || rows[0].Result != "upgraded" {
			t.Errorf("the third time: %+v", rows)
		}
		if rows = upgrade(0, "--all"); len(rows) != 0 {
			t.Errorf("the fourth time: %+v", rows)
		}
		for _, i := range all {
			i.Platform = p
			i.ExpectVersion(t, p, env, next.Version)
		}
		if got := controller.version(); got != next.Version {
			t.Errorf("Cloud Controller has version %q", got)
		}
	})
}

// failingFor returns the path of a program like next that does not start the server whose id is in a file.
func failingFor(t *testing.T, dir string, present, next mysqld.Binary, fails string) string {
	t.Helper()
	tree := filepath.Join(dir, "failing")
	if err := servers.LinkTree(present, tree); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(tree, "bin", filepath.Base(present.Path))
	script := fmt.Sprintf(`#!/bin/sh
if [ -e %[1]s ]; then
  case "$*" in *$(cat %[1]s)*) echo '[ERROR] a test wants it to fail'; exit 1;; esac
fi
exec %[2]s "$@"
`, fails, next.Path)
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}
