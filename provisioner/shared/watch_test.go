package shared

import (
	"bytes"
	"crypto/rand"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	sharedserver "mysql-broker/deploy/shared-server"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestMain(m *testing.M) { servers.Main(m) }

// A privilege that is revoked while the broker runs takes the server out of use until it is granted again.
func TestRevokedPrivilegeIsNoticed(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		root := s.Admin(t)
		account, password := "b_"+strings.ToLower(rand.Text()[:16]), rand.Text()
		statements, err := sharedserver.Statements(s.Flavour, password)
		require.NoError(t, err)
		for n := range statements {
			statements[n] = strings.Replace(statements[n], sharedserver.Account, account, 1)
		}
		testdrive.Exec(t, root, statements...)
		defer testdrive.Exec(t, root, "DROP USER "+account)
		server := watch(t, s, mysqladmin.Config{User: account, Password: password, CA: []byte(s.CA)})
		server.look(t, nil)

		testdrive.Exec(t, root, "REVOKE PROCESS ON *.* FROM "+account)
		server.look(t, nil) // not on each look
		server.privileged = server.privileged.Add(-privilegesInterval)
		var lacking *mysqladmin.PrivilegesError
		log := server.look(t, &lacking) + server.look(t, &lacking)
		assert.Equal(t, 1, strings.Count(log, "GRANT PROCESS ON"), "the missing privilege is told once:\n%s", log)

		testdrive.Exec(t, root, "GRANT PROCESS ON *.* TO "+account)
		assert.Contains(t, server.look(t, nil), "can be used again", "the log does not say that all is well:")
	})
}

// watched is a server that a broker looks at.
type watched struct{ *Server }

// watch opens a server with an account.
func watch(t *testing.T, s servers.MySQL, cfg mysqladmin.Config) watched {
	cfg.Name, cfg.Addr = "s", s.Address()
	all, err := Open([]Config{{Admin: cfg}}, []byte("a key"))
	require.NoError(t, err)
	t.Cleanup(func() { all.Close() })
	return watched{all.All()[0]}
}

// look returns what is logged when the broker looks at the server, which is usable unless it has that fault.
func (w watched) look(t *testing.T, fault any) string {
	t.Helper()
	var log bytes.Buffer
	w.refresh(t.Context(), slog.New(slog.NewTextHandler(&log, nil)))
	err := w.Check(t.Context())
	assert.Equal(t, fault == nil, w.Usable(), "usable: %v; log:\n%s", err, &log)
	if fault == nil {
		assert.NoError(t, err)
	} else {
		assert.ErrorAs(t, err, fault)
	}
	return log.String()
}

// A server that lets tenants use engines other than InnoDB is not used until its settings are fixed; the log has the lines
// to set. Missing recommended settings are logged once and have no other effect.
func TestServerThatTakesOtherEngines(t *testing.T) {
	t.Parallel()
	flavour := servers.Any(t).Flavour
	lax := map[string]string{"mysql": "disabled_storage_engines=", "mariadb": "max_prepared_stmt_count=16382"}
	line := map[string]string{"mysql": "disabled_storage_engines=MyISAM,MRG_MYISAM,MEMORY,CSV,ARCHIVE,BLACKHOLE,FEDERATED",
		"mariadb": "enforce_storage_engine=InnoDB"}[flavour]
	s := testdrive.PrivateWith(t, flavour, lax[flavour], "max_prepared_stmt_count=16382")
	root := s.Admin(t)
	if flavour == "mariadb" {
		testdrive.Exec(t, root, "SET GLOBAL enforce_storage_engine = NULL")
	}
	server := watch(t, s, mysqladmin.Config{User: s.BrokerUser, Password: s.BrokerPassword, CA: []byte(s.CA)})
	var unset *mysqladmin.SettingsError
	log := server.look(t, &unset)
	assert.True(t, strings.Count(log, line) == 1 && strings.Count(log, "max_prepared_stmt_count=1000000") == 1,
		"the log does not say what to set:\n%s", log)
	assert.NotContains(t, server.look(t, &unset), "max_prepared_stmt_count", "the log says it again")
	if flavour == "mariadb" { // MySQL's setting takes a restart
		testdrive.Exec(t, root, "SET GLOBAL enforce_storage_engine = InnoDB")
		server.look(t, nil)
	}
}

// If an operator gives no CA, the log says what that means.
func TestNoCAIsWarnedOf(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	server := watch(t, s, mysqladmin.Config{User: s.BrokerUser, Password: s.BrokerPassword})
	assert.Contains(t, server.look(t, nil), "offers TLS, but nothing verifies its certificate")
}
