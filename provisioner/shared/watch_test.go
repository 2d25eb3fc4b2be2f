package shared

import (
	"bytes"
	"crypto/rand"
	"database/sql"
	"errors"
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
		root := login(t, s)
		account, password := "b_"+strings.ToLower(rand.Text()[:16]), rand.Text()
		statements, err := sharedserver.Statements(s.Flavour, password)
		require.NoError(t, err)
		for n := range statements {
			statements[n] = strings.Replace(statements[n], sharedserver.Account, account, 1)
		}
		exec(t, root, statements...)
		defer exec(t, root, "DROP USER "+account)
		all, err := Open([]Config{{Admin: mysqladmin.Config{Name: "s", Addr: s.Address(), User: account,
			Password: password, CA: []byte(s.CA)}}}, []byte("a key"))
		require.NoError(t, err)
		defer all.Close()
		server := all.All()[0]
		var logged bytes.Buffer
		look := func() { server.refresh(t.Context(), slog.New(slog.NewTextHandler(&logged, nil))) }
		expect := func(usable bool) {
			t.Helper()
			err := server.Check(t.Context())
			if _, lacking := errors.AsType[*mysqladmin.PrivilegesError](err); server.Usable() != usable || lacking == usable {
				t.Errorf("usable: %t, %v; log:\n%s", server.Usable(), err, logged.String())
			}
		}
		look()
		expect(true)

		exec(t, root, "REVOKE PROCESS ON *.* FROM "+account)
		look() // not on each look
		expect(true)
		server.privileged = server.privileged.Add(-privilegesInterval)
		look()
		look()
		expect(false)
		if n := strings.Count(logged.String(), "GRANT PROCESS ON"); n != 1 {
			t.Errorf("the missing privilege is told %d times:\n%s", n, logged.String())
		}

		exec(t, root, "GRANT PROCESS ON *.* TO "+account)
		look()
		expect(true)
		assert.Contains(t, logged.String(), "can be used again", "the log does not say that all is well:")
	})
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
	root := login(t, s)
	if flavour == "mariadb" {
		exec(t, root, "SET GLOBAL enforce_storage_engine = NULL")
	}
	all, err := Open([]Config{{Admin: mysqladmin.Config{Name: "s", Addr: s.Address(), User: s.BrokerUser,
		Password: s.BrokerPassword, CA: []byte(s.CA)}}}, []byte("a key"))
	require.NoError(t, err)
	defer all.Close()
	server := all.All()[0]
	look := func(usable bool) (log string) {
		t.Helper()
		var logged bytes.Buffer
		server.refresh(t.Context(), slog.New(slog.NewTextHandler(&logged, nil)))
		err := server.Check(t.Context())
		if _, lacking := errors.AsType[*mysqladmin.SettingsError](err); server.Usable() != usable || lacking == usable {
			t.Errorf("usable: %t, %v; log:\n%s", server.Usable(), err, logged.String())
		}
		return logged.String()
	}
	log := look(false)
	assert.True(t, strings.Count(log, line) == 1 && strings.Count(log, "max_prepared_stmt_count=1000000") == 1,
		"the log does not say what to set:\n%s", log)
	log = look(false)
	assert.False(t, strings.Contains(log, "max_prepared_stmt_count"), "the log says it again:\n%s", log)
	if flavour == "mariadb" { // MySQL's setting takes a restart
		exec(t, root, "SET GLOBAL enforce_storage_engine = InnoDB")
		look(true)
	}
}

// If an operator gives no CA, the log says what that means.
func TestNoCAIsWarnedOf(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	all, err := Open([]Config{{Admin: mysqladmin.Config{Name: "s", Addr: s.Address(), User: s.BrokerUser,
		Password: s.BrokerPassword}}}, []byte("a key"))
	require.NoError(t, err)
	defer all.Close()
	var logged bytes.Buffer
	all.All()[0].refresh(t.Context(), slog.New(slog.NewTextHandler(&logged, nil)))
	assert.True(t, strings.Contains(logged.String(), "offers TLS, but nothing verifies its certificate") &&
		all.All()[0].Usable(), "the log says\n%s", logged.String())
}

// login prepares an administrator's connections.
func login(t *testing.T, s servers.MySQL) *sql.DB {
	db, err := s.Open()
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

func exec(t *testing.T, db *sql.DB, statements ...string) {
	for _, statement := range statements {
		_, err := db.Exec(statement)
		require.NoError(t, err, statement)
	}
}
