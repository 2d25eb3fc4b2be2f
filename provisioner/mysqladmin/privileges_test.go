package mysqladmin_test

import (
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	sharedserver "mysql-broker/deploy/shared-server"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestPrivilegesThatAreMissingAreNamed revokes each of the documented grants in turn.
func TestPrivilegesThatAreMissingAreNamed(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		account, password, statements := f.brokerAccount()
		f.exec(f.root, statements[0])
		err := f.checkPrivileges(account, password)
		assert.True(t, slices.Equal(missing(err), statements[1:]), "an account without privileges: %v", err)
		// Operators may run all of them again. The account keeps its password.
		f.exec(f.root, append([]string{strings.Replace(statements[0], password, rand.Text(), 1)}, statements...)...)
		f.must(f.checkPrivileges(account, password))
		for without, statement := range statements[1:] {
			f.exec(f.root, "REVOKE ALL PRIVILEGES, GRANT OPTION FROM '"+account+"'@'%'")
			f.exec(f.root, slices.Delete(slices.Clone(statements[1:]), without, without+1)...)
			err = f.checkPrivileges(account, password)
			assert.Equal(t, []string{statement}, missing(err), "all but %s: %v", statement, err)
			f.exec(f.root, statement)
			f.must(f.checkPrivileges(account, password))
		}
	})
}

// Where some privileges on some databases can be revoked, those on all do not suffice. MariaDB knows nothing of the kind.
func TestPartialRevokes(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		if s.Flavour == "mariadb" {
			f := newFixture(t, s)
			_, err := f.root.ExecContext(t.Context(), "SET GLOBAL partial_revokes = ON")
			assert.Error(t, err, "MariaDB has partial revokes: the broker must look for them")
			return
		}
		f := newFixture(t, testdrive.Private(t, s.Flavour))
		f.exec(f.root, "SET GLOBAL partial_revokes = ON")
		err := f.server.Setup.CheckPrivileges(t.Context())
		lacking, ok := errors.AsType[*mysqladmin.PrivilegesError](err)
		want := []string{"SET PERSIST partial_revokes = OFF", "FLUSH PRIVILEGES"}
		assert.True(t, ok && slices.Equal(lacking.Missing, want), "with partial revokes: %v", err)
		f.exec(f.root, "SET GLOBAL partial_revokes = OFF", "FLUSH PRIVILEGES")
		f.must(f.server.Setup.CheckPrivileges(t.Context()))
	})
}

func TestPrivilegesMayComeFromARoleOrBeAll(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		account, password, statements := f.brokerAccount()
		role := uniqueName("r_")
		f.exec(f.root, "CREATE ROLE "+role, statements[0], "GRANT "+role+" TO '"+account+"'@'%'")
		f.finally("DROP ROLE " + role)
		for _, statement := range statements[1:] {
			f.exec(f.root, strings.Replace(statement, "'"+account+"'@'%'", role, 1))
		}
		err := f.checkPrivileges(account, password)
		assert.True(t, slices.Equal(missing(err), statements[1:]), "a role that is not active: %v", err)
		to := map[string]string{"mysql": "TO", "mariadb": "FOR"}[f.config.Name]
		f.exec(f.root, "SET DEFAULT ROLE "+role+" "+to+" '"+account+"'@'%'")
		f.must(f.checkPrivileges(account, password))

		other, password, statements := f.brokerAccount()
		f.exec(f.root, statements[0], "GRANT ALL PRIVILEGES ON *.* TO '"+other+"'@'%' WITH GRANT OPTION")
		f.must(f.checkPrivileges(other, password))
	})
}

// TestGrantForRoutines names the grant without which routines cannot be read, until the account has it.
func TestGrantForRoutines(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		account, password, statements := f.brokerAccount()
		f.exec(f.root, slices.DeleteFunc(statements, func(s string) bool { return strings.Contains(s, "SHOW_ROUTINE") })...)
		server := f.open(f.configFor(account, password))
		grant, err := server.Setup.RoutinesGrant(t.Context())
		f.must(err)
		require.True(t, strings.HasPrefix(grant, "GRANT S") && strings.Contains(grant, account), "the grant is %q", grant)
		f.exec(f.root, grant)
		grant, err = server.Setup.RoutinesGrant(t.Context())
		f.must(err)
		assert.Empty(t, grant, "after it, the grant")
	})
}

// brokerAccount is the documented SQL for an account of the test's own, which is dropped when the test ends. The first
// statement creates it.
func (f *fixture) brokerAccount() (name, password string, statements []string) {
	name, password = uniqueName("b_"), rand.Text()
	documented, err := sharedserver.Statements(f.config.Name, password)
	f.must(err)
	for _, statement := range documented {
		if strings.Contains(statement, "SELECT ON mysql.db ") || strings.Contains(statement, "SELECT ON mysql.proc ") {
			// The broker can do without them.
			continue
		}
		statements = append(statements, strings.Replace(statement, sharedserver.Account, name, 1))
	}
	f.finally("DROP USER '" + name + "'@'%'")
	return name, password, statements
}

func (f *fixture) checkPrivileges(user, password string) error {
	return f.open(f.configFor(user, password)).Setup.CheckPrivileges(f.t.Context())
}

// missing returns the statements that an error asks for, with accounts quoted as in the documented SQL.
func missing(err error) (statements []string) {
	if lacking, ok := errors.AsType[*mysqladmin.PrivilegesError](err); ok {
		for _, statement := range lacking.Missing {
			before, account, _ := strings.Cut(statement, " TO ")
			statements = append(statements, before+" TO "+strings.ReplaceAll(account, "`", "'"))
		}
	}
	return statements
}

// The shipped option files contain exactly the lines that the broker asks for.
func TestSettingsThatAreAskedForAreShipped(t *testing.T) {
	t.Parallel()
	for file, flavour := range map[string]string{"mysql": mysqladmin.MySQL, "mariadb": mysqladmin.MariaDB} {
		shipped, err := sharedserver.Settings(file)
		require.NoError(t, err)
		wanted := mysqladmin.Lines(mysqladmin.Settings(flavour))
		slices.Sort(wanted)
		slices.Sort(shipped)
		// The file also has what the line about open files is measured by.
		shipped = slices.DeleteFunc(shipped, func(line string) bool { return strings.HasPrefix(line, "innodb_open_files=") })
		assert.Equal(t, wanted, shipped, "%s.cnf", file)
	}
}

// A server with the shipped lines lacks no setting. One with its defaults lacks those that differ from them.
func TestSettingsOfServers(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		f := newFixture(t, testdrive.PrivateWith(t, s.Flavour, map[string][]string{"mariadb": {"partition=OFF"}}[s.Flavour]...))
		recommended, err := f.server.Setup.CheckSettings(t.Context())
		f.must(err)
		assert.Empty(t, mysqladmin.Lines(recommended), "with the shipped lines")
		defaults := map[string][]string{
			"mysql": {"disabled_storage_engines=", "performance_schema=OFF", "connection_memory_limit=18446744073709551615",
				"global_connection_memory_tracking=OFF", "global_connection_memory_limit=18446744073709551615",
				"max_prepared_stmt_count=16382", "innodb_data_file_path=ibdata1:12M:autoextend", "max_allowed_packet=1G",
				"innodb_undo_log_truncate=OFF", "innodb_file_per_table=OFF"},
			"mariadb": {"partition=ON", "max_session_mem_used=9223372036854775807", "maximum-max_session_mem_used=9223372036854775807",
				"max_prepared_stmt_count=16382", "aria_pagecache_buffer_size=128M",
				"innodb_temp_data_file_path=ibtmp1:12M:autoextend", "innodb_undo_tablespaces=0", "max_allowed_packet=1G",
				"innodb_undo_log_truncate=OFF", "innodb_file_per_table=OFF"},
		}[s.Flavour]
		f = newFixture(t, testdrive.PrivateWith(t, s.Flavour, defaults...))
		if s.Flavour == "mariadb" {
			f.exec(f.root, "SET GLOBAL enforce_storage_engine = NULL")
		}
		recommended, err = f.server.Setup.CheckSettings(t.Context())
		unset, ok := errors.AsType[*mysqladmin.SettingsError](err)
		require.True(t, ok, "without any of the settings: %v", err)
		flavour, err := f.server.Flavour(t.Context())
		f.must(err)
		missing := mysqladmin.Lines(append(unset.Missing, recommended...))
		all := mysqladmin.Lines(mysqladmin.Settings(flavour.Name))
		// How many files a server may open, its host decides too: TestFilesThatAreLeft.
		all = slices.DeleteFunc(all, func(line string) bool { return strings.HasPrefix(line, "open_files_limit=") })
		assert.Equal(t, all, missing)
	})
}

// A tenant of Galera must not be able to choose how its DDL is executed. wsrep_on is ON here, but no provider is loaded.
func TestSettingsOfGalera(t *testing.T) {
	t.Parallel()
	const line = "maximum-wsrep_OSU_method=TOI"
	for what, given := range map[string][]string{"with it": {line}, "without it": nil} {
		f := newFixture(t, testdrive.PrivateWith(t, "mariadb", append(given, "wsrep_on=ON", "binlog_format=ROW")...))
		recommended, err := f.server.Setup.CheckSettings(t.Context())
		f.must(err)
		assert.Equal(t, given == nil, slices.Contains(mysqladmin.Lines(recommended), line), "%s, the server lacks it", what)
	}
}
