package connect

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

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

// TestSeveralHosts connects with the credentials of an instance on three servers, of which the first one is lost.
func TestSeveralHosts(t *testing.T) {
	t.Parallel()
	examples := examples(t)
	servers.EachMySQL(t, func(t *testing.T, server servers.MySQL) {
		c := testdrive.StartCluster(t, server.Flavour)
		env := testdrive.Environment(t, c.Nodes[0].MySQL)
		env["MYSQL_SERVERS"] = c.Described(t, 0)
		i := testdrive.Platform{Broker: testdrive.Start(t, env)}.MakeOwn(t, "shared-small")
		b := bind(t, i, "app", nil)
		c.Nodes[0].Kill(t)
		t.Run("drivers", func(t *testing.T) {
			for _, d := range hostDrivers() {
				t.Run(d.name, func(t *testing.T) {
					t.Parallel()
					b.findsAnother(t, prepared(t, d, examples[d.example]))
				})
			}
		})
	})
}

// findsAnother expects that a program connects to one of the other hosts.
func (b binding) findsAnother(t *testing.T, p program) {
	t.Helper()
	output, err := patiently(t, func() (string, error) { return p.connect(t, b) })
	raw, _ := json.Marshal(b["hosts"])
	lines := strings.Split(strings.TrimSpace(output), "\n") // before the last one, drivers may warn
	port := lines[len(lines)-1]
	assert.True(t, err == nil && port != b.text("port") && strings.Contains(string(raw), ":"+port+`"`),
		"%v; it printed %q, and the hosts are %s", err, output, raw)
}
