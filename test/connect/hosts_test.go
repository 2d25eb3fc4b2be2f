package connect

import (
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/audit"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// hostDrivers run the examples for credentials with several hosts.
func hostDrivers() (all []driver) {
	for _, d := range drivers() {
		switch d.example {
		case "node", "pymysql", "pdo":
			d.example = "hosts-" + d.example
		case "java-mariadb":
			d.example = "hosts-java"
		default:
			continue
		}
		all = append(all, d)
	}
	return all
}

// TestSeveralHosts connects with the credentials of an instance with three members, of which the first one is lost. On
// MySQL, it is back as a secondary, which ends connections at their first statement.
func TestSeveralHosts(t *testing.T) {
	t.Parallel()
	examples := examples(t)
	servers.EachMySQL(t, func(t *testing.T, server servers.MySQL) {
		env := testdrive.Environment(t, server)
		env["CATALOG"] = testdrive.CatalogWith(t, env["CATALOG"], "dedicated-large", "members: 3")
		broker := testdrive.Start(t, env)
		b := bindGroup(t, broker)
		if server.Flavour == mysqld.MariaDB {
			broker.Pause(t) // so that it does not start the member again
		}
		testdrive.KillMysqld(t, memberFile(t, env["LAUNCHER_DIR"], "data"))
		if server.Flavour == mysqld.MySQL {
			b.awaitSecondary(t)
		}
		t.Run("drivers", func(t *testing.T) {
			for _, d := range hostDrivers() {
				t.Run(d.name, func(t *testing.T) {
					t.Parallel()
					b.findsAnother(t, prepared(t, d, examples[d.example]))
				})
			}
		})
		broker.Signal(t, syscall.SIGCONT)
	})
}

// bindGroup orders an instance with three members and binds it.
func bindGroup(t *testing.T, broker *testdrive.Broker) binding {
	t.Helper()
	service, plan := testdrive.Plan(t, "dedicated-large")
	const path = "/v2/service_instances/trio"
	ids := map[string]any{"service_id": service, "plan_id": plan, "organization_guid": "o", "space_guid": "s"}
	accepted := broker.Do(t, "PUT", path+"?accepts_incomplete=true", ids).Expect(t, http.StatusAccepted)
	if state, shown := broker.AwaitOperation(t, "trio", accepted.String("operation")); state != "succeeded" {
		t.Fatalf("%s: %q", state, shown)
	}
	r := broker.Do(t, "PUT", path+"/service_bindings/app", map[string]any{"service_id": service, "plan_id": plan})
	c, _ := r.Expect(t, http.StatusCreated).Body["credentials"].(map[string]any)
	return binding(c)
}

func memberFile(t *testing.T, launcherDir string, path ...string) string {
	t.Helper()
	first := filepath.Join(launcherDir, "instances", "*", "members", "1")
	found, err := filepath.Glob(filepath.Join(append([]string{first}, path...)...))
	if err != nil || len(found) != 1 {
		t.Fatalf("the files of the first member: %v, %v", found, err)
	}
	return found[0]
}

// awaitSecondary waits until the first host ends connections as a secondary does.
func (b binding) awaitSecondary(t *testing.T) {
	t.Helper()
	c, err := audit.ReadCredentials(map[string]any(b))
	if err != nil {
		t.Fatal(err)
	}
	testdrive.Eventually(t, testdrive.Patience, "the first host is a secondary", func() bool {
		db, err := c.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		var refused *mysql.MySQLError
		_, err = db.ExecContext(t.Context(), "SELECT 1")
		return errors.As(err, &refused) && refused.Number == 1184
	})
}

// findsAnother expects that a program connects to one of the other hosts.
func (b binding) findsAnother(t *testing.T, p program) {
	t.Helper()
	output, err := patiently(t, func() (string, error) { return p.connect(t, b) })
	raw, _ := json.Marshal(b["hosts"])
	lines := strings.Split(strings.TrimSpace(output), "\n") // before the last one, drivers may warn
	port := lines[len(lines)-1]
	if err != nil || port == b.text("port") || !strings.Contains(string(raw), ":"+port+`"`) {
		t.Errorf("%v; it printed %q, and the hosts are %s", err, output, raw)
	}
}
