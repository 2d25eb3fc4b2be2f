package tenants

import (
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"

	"mysql-broker/provisioner/plan"
	"mysql-broker/test/audit"
	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// expectOver fails the test unless the broker reports to the platform that the instance is over its quota, or that it
// is not.
func expectOver(t *testing.T, i testdrive.Instance, over bool) {
	t.Helper()
	r := i.Fetch(t).Expect(t, http.StatusOK)
	state := testdrive.Field(r.Body, "metadata", "attributes", "storage_state")
	if (state == "over quota") != over {
		t.Errorf("the platform is told: %s", r.Raw)
	}
	t.Logf("GET instance: %v", testdrive.Field(r.Body, "metadata", "attributes"))
}

func TestQuota(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		private := testdrive.Private(t, s.Flavour)
		env := testdrive.QuotaEnvironment(t, private)
		p := testdrive.StartPlatform(t, private, env)
		i := p.MakeOwn(t, "shared-small")
		_, c := i.Bound(t, nil)
		_, adminC := i.Bound(t, body{"parameters": body{"role": "admin"}})
		_, readerC := i.Bound(t, body{"parameters": body{"role": "read-only"}})
		retired, retiredC := i.Bound(t, nil)
		db, byAdmin, reader := c.Open(t), adminC.Open(t), readerC.Open(t)
		testdrive.Fill(t, db, 1)
		testdrive.Exec(t, retiredC.Open(t), "CREATE PROCEDURE grow () INSERT INTO filler (content) VALUES ('z')",
			"CREATE PROCEDURE shrink () DELETE FROM filler ORDER BY id DESC LIMIT 1")
		retired.Unbind(t).Expect(t, http.StatusOK)
		testdrive.Exec(t, db, "CALL grow()")
		testdrive.Eventually(t, testdrive.QuotaTime, "the platform is told what the data take", func() bool {
			return testdrive.Field(i.Fetch(t).Body, "metadata", "attributes", "storage_state") == "ok"
		})

		testdrive.Fill(t, db, 32)
		p.AwaitLog(t, "a service instance uses much of its quota")
		expectOver(t, i, false)
		open, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		reading, err := reader.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		testdrive.Overfill(t, db, testdrive.QuotaSmall)
		awaitReconciled(t, p)
		expectQuotaOver(t, p, env, i, db, byAdmin, reader)
		if _, err := open.ExecContext(t.Context(), testdrive.InsertOne); !errors.Is(err, mysql.ErrInvalidConn) &&
			!strings.Contains(fmt.Sprint(err), "bad connection") {
			t.Errorf("a session that was open: %v, want it ended", err)
		}
		if _, err := reading.ExecContext(t.Context(), "SELECT COUNT(*) FROM filler"); err != nil {
			t.Errorf("an open session of a read-only account: %v", err)
		}

		// Neither a new binding, nor a repeated one, nor a repair, nor another broker, nor a plan that is as small lifts it.
		for _, role := range []string{"read-write", "admin"} {
			again, made := i.Bound(t, body{"parameters": body{"role": role}})
			again.Bind(t, body{"parameters": body{"role": role}}).Expect(t, http.StatusOK)
			fresh := made.Open(t)
			expectRefusals(t, fresh)
			testdrive.Exec(t, fresh, "SELECT COUNT(*) FROM filler")
			testdrive.Exec(t, p.Admin(t), "DROP USER "+made.Username)
			testdrive.Run(t, env, "doctor", "--repair").Expect(t, 0)
			expectRefusals(t, made.Open(t))
		}
		testdrive.ExpectEmpty(t, i.UpdatePlan(t, testdrive.Sync, "shared-async"), http.StatusOK)
		awaitRound(t, p)
		expectRefusals(t, db)
		auditQuota(t, p, env, i, testdrive.Plans(t))
		p.Signal(t, syscall.SIGTERM)
		p.Wait(t)
		p = testdrive.StartPlatform(t, private, env)
		i = i.Via(p)
		awaitRound(t, p)
		expectRefusals(t, db)
		expectOver(t, i, true)

		// What deletes data makes room again, in the same files.
		testdrive.Exec(t, db, "CALL shrink()", "DELETE FROM filler WHERE id > 3")
		testdrive.AwaitAllowed(t, db)
		awaitReconciled(t, p)
		expectOver(t, i, false)
		testdrive.Exec(t, byAdmin, "CREATE TABLE another (id INT)", "CALL grow()", "DROP TABLE another")
		expectReadOnly(t, reader)
		auditQuota(t, p, env, i, testdrive.Plans(t))
		testdrive.Exec(t, db, "DROP TABLE filler")

		// A larger plan has room.
		testdrive.Overfill(t, db, testdrive.QuotaSmall)
		testdrive.Exec(t, db, "TRUNCATE filler")
		testdrive.AwaitAllowed(t, db)
		testdrive.Overfill(t, db, testdrive.QuotaSmall)
		testdrive.ExpectEmpty(t, i.UpdatePlan(t, testdrive.Sync, "shared-large"), http.StatusOK)
		testdrive.AwaitAllowed(t, db)

		// Who drops the database while it is over its quota can make it again.
		testdrive.Overfill(t, db, testdrive.QuotaLarge)
		awaitReconciled(t, p)
		testdrive.Exec(t, byAdmin, "DROP DATABASE `"+c.Database+"`")
		server := c.Fields(t)
		server.DBName = ""
		anywhere := testdrive.Connect(t, server)
		testdrive.Eventually(t, testdrive.QuotaTime, "the database can be made again", func() bool {
			_, err := anywhere.ExecContext(t.Context(), "CREATE DATABASE `"+c.Database+"`")
			return err == nil
		})

		// An instance that has the id of another one inherits nothing.
		testdrive.Overfill(t, c.Open(t), testdrive.QuotaLarge)
		testdrive.ExpectEmpty(t, i.Deprovision(t, testdrive.Sync), http.StatusOK)
		testdrive.ExpectEmpty(t, i.Provision(t, testdrive.Sync, nil), http.StatusCreated)
		_, anew := i.Bound(t, nil)
		testdrive.Exec(t, anew.Open(t), "CREATE TABLE filler (content LONGBLOB)", testdrive.InsertOne)
		if i.Fetch(t); testdrive.Field(i.Fetch(t).Body, "metadata", "attributes", "storage_state") == "over quota" {
			t.Error("a new instance is over its quota")
		}
		testdrive.ExpectEmpty(t, i.Deprovision(t, testdrive.Sync), http.StatusOK)
	})
}

// expectQuotaOver checks everything that reports the quota, and the privileges of each account.
func expectQuotaOver(t *testing.T, p testdrive.Platform, env map[string]string, i testdrive.Instance, writer, admin, reader *sql.DB) {
	t.Helper()
	line := p.AwaitLog(t, "a service instance is over its quota")
	t.Logf("log: %s", line)
	if !strings.Contains(line, i.ID) || !strings.Contains(line, `"quota_bytes":41943040`) {
		t.Errorf("the log tells no more than: %s", line)
	}
	expectOver(t, i, true)
	for _, db := range []*sql.DB{writer, admin} {
		expectRefusals(t, db)
		testdrive.Exec(t, db, "SELECT COUNT(*) FROM filler", "DELETE FROM filler WHERE id = 2", "CALL shrink()")
		if number := testdrive.RefusalOf(t, db, "CALL grow()"); number != testdrive.Denied {
			t.Errorf("a procedure of a retired account: error %d", number)
		}
	}
	expectReadOnly(t, reader)
	testdrive.Eventually(t, limits.Stuck, "metrics tell", func() bool { // which may be a minute old on a busy machine
		return p.Scrape(t)[`mysql_broker_quota_instances{level="100",plan="shared-small"}`] == "1"
	})
	testdrive.ExpectFigures(t, p, map[string]string{
		`mysql_broker_instance_storage_quota_bytes{instance_id="` + i.ID + `",plan="shared-small"}`: "4.194304e+07",
		`mysql_broker_quota_accounts_due`:                                  "0",
		`mysql_broker_quota_instances{level="80",plan="shared-small"}`:     "0",
		`mysql_broker_quota_instances{level="100",plan="dedicated-small"}`: "0",
	})
	for series, value := range p.Scrape(t) {
		if strings.Contains(series, "quota") || strings.Contains(series, "storage") {
			t.Logf("metric: %s %s", series, value)
		}
	}
	user := p.Terminal(t)
	user.Env["MYSQL_BROKER_CLIENT_STATE"] = clientState(t, p, i)
	user.Expect(t, "over quota", "service", "mine")
	shown := p.Operator(env).Run(t, 0, "instances", i.ID, "--json").Stdout
	if !strings.Contains(shown, `"over_quota_since"`) || !strings.Contains(shown, `"storage_bytes"`) {
		t.Errorf("operators see: %s", shown)
	}
}

// clientState makes the client know an instance that it did not make.
func clientState(t *testing.T, p testdrive.Platform, i testdrive.Instance) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "client.json")
	if err := os.WriteFile(path, fmt.Appendf(nil, `{%q: {"mine": {"guid": %q, "plan": {"name": "shared-small"}}}}`,
		p.URL, i.ID), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func expectRefusals(t *testing.T, db *sql.DB) {
	t.Helper()
	for statement, want := range map[string]uint16{
		testdrive.InsertOne:                         testdrive.Denied,
		"UPDATE filler SET content = 'y'":           testdrive.Denied,
		"CREATE TABLE more (id INT)":                testdrive.Denied,
		"ALTER TABLE filler ADD COLUMN more INT":    testdrive.Denied,
		"CREATE INDEX more ON filler (content(10))": testdrive.Denied,
		"CREATE TEMPORARY TABLE more (id INT)":      testdrive.DeniedInAll,
	} {
		if number := testdrive.RefusalOf(t, db, statement); number != want {
			t.Errorf("%s: error %d instead of %d", statement, number, want)
		}
	}
}

func expectReadOnly(t *testing.T, db *sql.DB) {
	t.Helper()
	testdrive.Exec(t, db, "SELECT COUNT(*) FROM filler")
	for _, statement := range []string{testdrive.InsertOne, "DELETE FROM filler", "DROP TABLE filler", "CREATE TABLE more (id INT)"} {
		if number := testdrive.RefusalOf(t, db, statement); number != testdrive.Denied {
			t.Errorf("%s by a read-only account: error %d", statement, number)
		}
	}
}

// awaitReconciled waits until all accounts of the instance may do what they should.
func awaitReconciled(t *testing.T, p testdrive.Platform) {
	t.Helper()
	testdrive.Eventually(t, testdrive.QuotaTime, "all accounts are reconciled", func() bool {
		return p.Scrape(t)["mysql_broker_quota_accounts_due"] == "0"
	})
}

// awaitRound waits until a round of measuring has begun and ended since the call.
func awaitRound(t *testing.T, p testdrive.Platform) {
	t.Helper()
	const measured = `mysql_broker_quota_measurement_timestamp_seconds{server="shared-1"}`
	for range 2 {
		before := p.Scrape(t)[measured]
		testdrive.Eventually(t, testdrive.QuotaTime, "all is measured", func() bool {
			now := p.Scrape(t)[measured]
			return now != "" && now != before
		})
	}
}

// auditQuota compares what is recorded of the instance with what its accounts may do.
func auditQuota(t *testing.T, p testdrive.Platform, env map[string]string, i testdrive.Instance, plans []plan.Plan) {
	t.Helper()
	s := p.Server
	admin, err := audit.Credentials{Host: s.Host, Port: s.Port, Username: s.User, Password: s.Password,
		CACertificate: s.CA}.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	reported := audit.Reported{Instances: []audit.Instance{{ID: i.ID, State: audit.Exists}}}
	rows, err := testdrive.OpenTasks(t, env).Pool.Query(t.Context(), "SELECT id, role FROM binding WHERE instance_id = $1", i.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		b := audit.Binding{InstanceID: i.ID, State: audit.Exists}
		if err := rows.Scan(&b.ID, &b.Role); err != nil {
			t.Fatal(err)
		}
		reported.Bindings = append(reported.Bindings, b)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for _, sentence := range audit.Check(t.Context(), audit.World{PostgresURL: env["DATABASE_URL"],
		Keyset: env["ENCRYPTION_KEYSET"], Shared: admin, Launchers: testdrive.Inspectors(env),
		Plans: plans, Reported: reported}) {
		t.Error(sentence)
	}
}
