package e2e

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestNoRoomForTheData moves, copies and restores an instance to servers whose disk then gets full. That is said in a sentence,
// within seconds; the source stays as it was, and nothing is left over.
func TestNoRoomForTheData(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		private := testdrive.Private(t, s.Flavour)
		env := testdrive.Environment(t, private)
		disk := testdrive.MountDisk(t, env["LAUNCHER_DIR"], diskMiB)
		env["BACKUP_STORE"] = "file://" + t.TempDir()
		faults := testdrive.NewFaults(t, env)
		p := startPlatformBy(t, disk.Start, private, env)
		i := p.ownInstance(t, "shared-small")
		i.provision(t, now, body{"context": cloudFoundry}).Expect(t, http.StatusCreated)
		_, c := i.bound(t, nil)
		makeObjectsAs(t, c)
		db := c.open(t)
		exec(t, db, "CREATE TABLE large (id INT AUTO_INCREMENT PRIMARY KEY, filling MEDIUMBLOB)")
		for range 30 {
			exec(t, db, "INSERT INTO large (filling) VALUES (REPEAT(RANDOM_BYTES(1000), 1000))")
		}

		expectFull := func(i instance, operation, says string) {
			t.Helper()
			state, shown := i.AwaitOperation(t, i.id, operation)
			if last := shown[len(shown)-1]; state != "failed" || !strings.Contains(last, "disk") || !strings.Contains(last, says) {
				t.Errorf("the operation %s: %q", state, shown)
			}
			disk.Free(t)
			exec(t, db, "CALL add_item()")
			expectTenants(t, p.admin(t), 1, 1)
			expectEmptyDisk(t, disk)
		}

		reached, release := holdAt(t, faults, "update: launch: done")
		operation := i.updatePlan(t, later, "dedicated-small").Expect(t, http.StatusAccepted).String("operation")
		testdrive.Receive(t, reached, "the server runs")
		disk.Fill(t, 8)
		release()
		expectFull(i, operation, "stays where it was")

		i.await(t, i.backUp(t).Expect(t, http.StatusAccepted).String("operation"))
		for from, room := range map[string]int64{"clone_from": 8, "restore_from": 0} { // MiB, not even for the database
			reached, release = holdAt(t, faults, "provision: launch: done")
			made := p.ownInstance(t, "dedicated-small")
			operation = made.provision(t, later, body{"context": cloudFoundry, "parameters": body{from: i.id}}).
				Expect(t, http.StatusAccepted).String("operation")
			testdrive.Receive(t, reached, "the server runs")
			disk.Fill(t, room)
			release()
			expectFull(made, operation, "create it again")
			made.remove(t)
		}

		// There is room again. Users read how much is copied.
		reached, release = holdAt(t, faults, "update: copied")
		operation = i.updatePlan(t, later, "dedicated-small").Expect(t, http.StatusAccepted).String("operation")
		testdrive.Receive(t, reached, "rows are copied")
		time.Sleep(time.Second) // which is how often it is recorded
		release()
		progress := regexp.MustCompile(`^Copying the data: \d+ of \d+ MiB \(\d+ %\)`)
		if shown := i.await(t, operation); !slices.ContainsFunc(shown, progress.MatchString) {
			t.Errorf("the move showed %q", shown)
		}
	})
}

// TestNoRoomOnSharedServer moves and copies an instance to a shared server that has no room for it. All tables there are
// in one file of limited size, which gets full as a disk does.
func TestNoRoomOnSharedServer(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		small := testdrive.PrivateWith(t, s.Flavour, "innodb_data_file_path=ibdata1:12M:autoextend:max:24M")
		env := testdrive.Environment(t, s)
		text, err := json.Marshal([]map[string]any{described("large", s), described("small", small)})
		if err != nil {
			t.Fatal(err)
		}
		env["MYSQL_SERVERS"], env["LAUNCHER"] = string(text), "none"
		p := startPlatform(t, small, env)
		d := desk{p, p.operator(env), p.admin(t), openTasks(t, env), nil}
		d.run(t, 0, "drain", "small")
		i := p.provisioned(t, "shared-small", body{"context": cloudFoundry})
		_, c := i.bound(t, nil)
		makeObjectsAs(t, c)
		db := c.open(t)
		exec(t, db, "CREATE TABLE large (id INT AUTO_INCREMENT PRIMARY KEY, filling MEDIUMBLOB)")
		for range 30 {
			exec(t, db, "INSERT INTO large (filling) VALUES (REPEAT(RANDOM_BYTES(1000), 1000))")
		}
		exec(t, d.admin, "SET GLOBAL innodb_file_per_table = OFF") // the broker has looked at the settings
		d.run(t, 0, "drain", "--undo", "small")
		d.run(t, 0, "drain", "large")

		operation, _, _ := strings.Cut(d.run(t, 0, "move", i.id, "small").Stdout, " ")
		if state, says := d.ended(t, operation); state != "failed" || !strings.Contains(says, "disk") ||
			!strings.Contains(says, "stays where it was") {
			t.Errorf("the move %s: %s", state, says)
		}
		exec(t, db, "CALL add_item()")
		expectTenants(t, d.admin, 0, 0)
		copied := p.ownInstance(t, "shared-small")
		operation = copied.clone(t, i.id, nil).Expect(t, http.StatusAccepted).String("operation")
		if state, says := d.ended(t, operation); state != "failed" || !strings.Contains(says, "disk") ||
			!strings.Contains(says, "create it again") {
			t.Errorf("the copy %s: %s", state, says)
		}
		copied.remove(t)
		expectTenants(t, d.admin, 0, 0)
		exec(t, d.admin, "SET GLOBAL innodb_file_per_table = ON")
		operation, _, _ = strings.Cut(d.run(t, 0, "move", i.id, "small").Stdout, " ")
		if state, says := d.ended(t, operation); state != "succeeded" {
			t.Errorf("the move to a server with room %s: %s", state, says)
		}
	})
}
