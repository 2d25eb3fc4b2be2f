package connect

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// binding is the credentials of one, as an application finds them.
type binding map[string]any

func (b binding) text(field string) string { return fmt.Sprint(b[field]) }

// address is where the server is.
func (b binding) address() string { return net.JoinHostPort(b.text("host"), b.text("port")) }

// with is the binding with a text replaced in all that it contains.
func (b binding) with(old, text string) (changed binding) {
	escaped := func(text string) string {
		quoted, _ := json.Marshal(text)
		return strings.Trim(string(quoted), `"`)
	}
	all, _ := json.Marshal(b)
	_ = json.Unmarshal([]byte(strings.ReplaceAll(string(all), escaped(old), escaped(text))), &changed)
	return changed
}

// at are the credentials of the same account on a server elsewhere.
func (b binding) at(host string, port int) binding {
	moved := b.with(b.address(), net.JoinHostPort(host, strconv.Itoa(port)))
	moved["host"], moved["hostname"], moved["port"] = host, host, port
	return moved
}

// vcapServices is the variable in which Cloud Foundry hands credentials to applications.
func (b binding) vcapServices(t *testing.T) string {
	text, err := json.Marshal(map[string]any{"mysql": []map[string]any{{"name": "db", "label": "mysql",
		"tags": []string{"mysql", "relational"}, "credentials": b}}})
	require.NoError(t, err)
	return string(text)
}

// newTenant makes an instance of shared-large, to make bindings of.
func newTenant(t *testing.T, b *testdrive.Broker, id string) testdrive.Instance {
	i := testdrive.Platform{Broker: b}.NewInstanceCalled(t, "shared-large", id)
	i.Provision(t, testdrive.Sync, nil).Expect(t, http.StatusCreated)
	return i
}

// bind makes an account, which no driver has logged in with before: MySQL remembers what spares later logins to send the
// password.
func bind(t *testing.T, i testdrive.Instance, id string, parameters map[string]any) binding {
	r := testdrive.Binding{Instance: i, BindingID: id}.Bind(t, testdrive.Body{"parameters": parameters})
	c, ok := r.Expect(t, http.StatusCreated).Body["credentials"].(map[string]any)
	require.True(t, ok, "the answer has no credentials")
	return c
}

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

// TestSeveralHosts connects with the credentials of an instance on three servers. The first one is lost, and the others
// have IPv6 addresses.
func TestSeveralHosts(t *testing.T) {
	t.Parallel()
	examples := examples(t)
	servers.EachMySQL(t, func(t *testing.T, server servers.MySQL) {
		c := testdrive.StartCluster(t, server.Flavour)
		env := testdrive.Environment(t, c.Nodes[0].MySQL)
		env["MYSQL_SERVERS"] = c.Described(t, 0)
		i := testdrive.Platform{Broker: testdrive.Start(t, env)}.MakeOwn(t, "shared-small")
		b := bind(t, i, "app", nil)
		six := b
		for _, node := range c.Nodes[1:] {
			address := net.JoinHostPort("::1", strconv.Itoa(node.Port))
			testdrive.NewProxyAt(t, address, node.Address())
			six = six.with(node.Address(), address)
		}
		c.Nodes[0].Kill(t)
		t.Run("drivers", func(t *testing.T) {
			for _, d := range hostDrivers() {
				t.Run(d.name, func(t *testing.T) {
					t.Parallel()
					with := six
					if d.only4 {
						with = b
					}
					with.findsAnother(t, prepared(t, d, examples[d.example]))
				})
			}
		})
	})
}

// findsAnother expects that a program connects to one of the other hosts.
func (b binding) findsAnother(t *testing.T, p program) {
	output, err := patiently(t, func() (string, error) { return p.connect(t, b) })
	raw, _ := json.Marshal(b["hosts"])
	lines := strings.Split(strings.TrimSpace(output), "\n") // before the last one, drivers may warn
	port := lines[len(lines)-1]
	assert.True(t, err == nil && port != b.text("port") && strings.Contains(string(raw), ":"+port+`"`),
		"%v; it printed %q, and the hosts are %s", err, output, raw)
}
