package e2e

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

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
		reached, release = holdAt(t, faults, "update: copy: done")
		operation = i.updatePlan(t, later, "dedicated-small").Expect(t, http.StatusAccepted).String("operation")
		testdrive.Receive(t, reached, "rows are copied")
		progress := regexp.MustCompile(`^Copying the data: \d+ of \d+ MiB \(\d+ %\)`)
		if shown := i.poll(t, "?operation="+operation).String("description"); !progress.MatchString(shown) {
			t.Errorf("the move shows %q", shown)
		}
		release()
		i.await(t, operation)
	})
}

// TestNoRoomOnSharedServer moves and copies an instance to a shared server whose disk then gets full. The neighbours there
// can go on.
func TestNoRoomOnSharedServer(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		small, disk := testdrive.PrivateOnDisk(t, s.Flavour, diskMiB)
		env := testdrive.Environment(t, s)
		text, err := json.Marshal([]map[string]any{described("large", s), described("small", small)})
		if err != nil {
			t.Fatal(err)
		}
		env["MYSQL_SERVERS"], env["LAUNCHER"] = string(text), "none"
		p := startPlatform(t, small, env)
		o, admin, ts := p.operator(env), p.admin(t), openTasks(t, env)
		o.run(t, 0, "drain", "large")
		neighbour := p.provisioned(t, "shared-small", nil)
		o.run(t, 0, "drain", "--undo", "large")
		o.run(t, 0, "drain", "small")
		i := p.provisioned(t, "shared-small", body{"context": cloudFoundry})
		_, c := i.bound(t, nil)
		makeObjectsAs(t, c)
		db := c.open(t)
		exec(t, db, "CREATE TABLE large (id INT AUTO_INCREMENT PRIMARY KEY, filling VARCHAR(2000))",
			"INSERT INTO large (filling) VALUES (REPEAT('filling ', 250))")
		for range 14 {
			exec(t, db, "INSERT INTO large (filling) SELECT filling FROM large")
		}
		o.run(t, 0, "drain", "--undo", "small")
		o.run(t, 0, "drain", "large")

		expectFull := func(operation, says string) {
			t.Helper()
			if state, description := o.outcome(t, ts, operation); state != "failed" || !strings.Contains(description, "disk") ||
				!strings.Contains(description, says) {
				t.Errorf("the operation %s: %s", state, description)
			}
			exec(t, db, "CALL add_item()")
			b, _ := neighbour.bound(t, nil)
			b.unbind(t).Expect(t, http.StatusOK)
			expectTenants(t, admin, 1, 0)
		}
		disk.Fill(t, 8)
		operation, _, _ := strings.Cut(o.run(t, 0, "move", i.id, "small").Stdout, " ")
		expectFull(operation, "stays where it was")
		copied := p.ownInstance(t, "shared-small")
		expectFull(copied.clone(t, i.id, nil).Expect(t, http.StatusAccepted).String("operation"), "create it again")
		copied.remove(t)

		disk.Free(t)
		operation, _, _ = strings.Cut(o.run(t, 0, "move", i.id, "small").Stdout, " ")
		if state, says := o.outcome(t, ts, operation); state != "succeeded" {
			t.Errorf("the move to a server with room %s: %s", state, says)
		}
	})
}
