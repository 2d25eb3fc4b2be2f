package mysqladmin_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// No engine but InnoDB works.
func TestOtherEngines(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		db := f.loginAs(f.account(plan.Admin))
		f.exec(db, "CREATE TABLE kept (id INT)")
		engines := f.strings(t.Context(), `SELECT ENGINE FROM information_schema.ENGINES
			WHERE SUPPORT = 'YES' AND ENGINE NOT IN ('PERFORMANCE_SCHEMA', 'SEQUENCE', 'ndbinfo')`)
		for _, engine := range engines {
			f.refused(db, "CREATE TABLE other (id INT NOT NULL) ENGINE="+engine,
				"CREATE TEMPORARY TABLE other (id INT NOT NULL) ENGINE="+engine, "ALTER TABLE kept ENGINE="+engine)
		}
		assert.True(t, slices.Contains(engines, "MyISAM") && slices.Contains(engines, "MEMORY"), "engines tried: %q", engines)
		f.refused(db, "SET SESSION enforce_storage_engine = NULL")
	})
}

// Tenants dump and restore their databases as docs/plans.md says. Tables of another engine become InnoDB's as they are
// restored, since dumps switch NO_ENGINE_SUBSTITUTION off.
func TestDumpOfAnotherEngineBecomesInnoDB(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		source, target := newFixture(t, lax(t, s)), newFixture(t, s)
		source.createMyISAM("words", "id INT AUTO_INCREMENT PRIMARY KEY, word TEXT, FULLTEXT KEY (word)")
		tenant := source.account(plan.Admin)
		source.exec(source.loginAs(tenant), "INSERT INTO words (word) VALUES ('apple'), ('pear')")
		dump := source.dump(tenant)
		require.True(t, strings.Contains(string(dump), "ENGINE=MyISAM"), "the dump has no table of MyISAM: %s", dump)

		tenant = target.account(plan.Admin)
		target.runClient(clients[s.Flavour].load, tenant, dump, "--binary-mode")
		assert.Equal(t, "InnoDB: apple,pear", testdrive.Read[string](t, target.loginAs(tenant), `SELECT CONCAT(ENGINE, ': ',
			(SELECT GROUP_CONCAT(word ORDER BY id) FROM words)) FROM information_schema.TABLES
			WHERE TABLE_SCHEMA = DATABASE()`), "the restored table's engine and words")
		again := target.dump(tenant)
		assert.True(t, strings.Contains(string(again), "apple"), "a dump of what was restored has no rows: %s", again)
	})
}

// clients are the programs of each flavour, and their options. dumpOptions are those without which MySQL's asks for
// privileges on the whole server.
var clients = map[string]struct {
	dump, load, verify string
	dumpOptions        []string
}{
	"mysql": {"mysqldump", "mysql", "ssl-mode=VERIFY_IDENTITY",
		[]string{"--set-gtid-purged=OFF", "--loose-skip-masking-policies"}},
	"mariadb": {"mariadb-dump", "mariadb", "ssl-verify-server-cert", nil},
}

func (f *fixture) dump(by mysqladmin.Account) []byte {
	c := clients[f.config.Name]
	return f.runClient(c.dump, by, nil,
		slices.Concat(c.dumpOptions, []string{"--single-transaction", "--no-tablespaces", "--routines"})...)
}

// runClient runs a program on an account's database, over TLS that is verified, and returns its output.
func (f *fixture) runClient(program string, a mysqladmin.Account, input []byte, options ...string) []byte {
	host, port, err := net.SplitHostPort(f.config.Addr)
	f.must(err)
	dir := f.t.TempDir()
	ca, login := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "login.cnf")
	f.must(os.WriteFile(ca, f.config.CA, 0o600))
	f.must(os.WriteFile(login, fmt.Appendf(nil, "[client]\nhost=%s\nport=%s\nuser=%s\npassword=%s\nssl-ca=%s\n%s\n",
		host, port, a.Name, a.Password, ca, clients[f.config.Name].verify), 0o600))
	cmd := exec.CommandContext(f.t.Context(), testdrive.ClientProgram(f.t, f.config.Name, program),
		slices.Concat([]string{"--defaults-file=" + login}, options, []string{a.Database})...)
	cmd.Stdin = bytes.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	require.NoError(f.t, err, "%s: %s", program, &stderr)
	return output
}
