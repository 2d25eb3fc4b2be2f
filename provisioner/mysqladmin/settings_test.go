package mysqladmin_test

import (
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
		if !slices.Equal(shipped, wanted) {
			t.Errorf("%s.cnf has\n%s\nand the broker asks for\n%s", file, strings.Join(shipped, "\n"), strings.Join(wanted, "\n"))
		}
	}
}

// A server with the shipped lines lacks no setting. One with its defaults lacks those that differ from them.
func TestSettingsOfServers(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		f := newFixture(t, testdrive.PrivateWith(t, s.Flavour, map[string][]string{"mariadb": {"partition=OFF"}}[s.Flavour]...))
		recommended, err := f.server.Setup.CheckSettings(t.Context())
		f.must(err)
		if len(recommended) > 0 {
			t.Errorf("with the shipped lines, these are missing: %v", mysqladmin.Lines(recommended))
		}
		defaults := map[string][]string{
			"mysql": {"disabled_storage_engines=", "performance_schema=OFF", "connection_memory_limit=18446744073709551615",
				"global_connection_memory_tracking=OFF", "global_connection_memory_limit=18446744073709551615",
				"max_prepared_stmt_count=16382", "innodb_data_file_path=ibdata1:12M:autoextend", "max_allowed_packet=1G",
				"innodb_undo_log_truncate=OFF", "innodb_file_per_table=OFF"},
			"mariadb": {"partition=ON", "max_session_mem_used=9223372036854775807", "maximum-max_session_mem_used=9223372036854775807",
				"max_prepared_stmt_count=16382",
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
		if !slices.Equal(missing, all) {
			t.Errorf("missing are\n%s\ninstead of\n%s", strings.Join(missing, "\n"), strings.Join(all, "\n"))
		}
	})
}

// A tenant of Galera must not be able to choose how its DDL is executed. wsrep_on is ON here, but no provider is loaded.
func TestSettingsOfGalera(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		if s.Flavour != "mariadb" {
			return
		}
		const line = "maximum-wsrep_OSU_method=TOI"
		for what, given := range map[string][]string{"with it": {line}, "without it": nil} {
			f := newFixture(t, testdrive.PrivateWith(t, s.Flavour, append(given, "wsrep_on=ON", "binlog_format=ROW")...))
			recommended, err := f.server.Setup.CheckSettings(t.Context())
			f.must(err)
			if slices.Contains(mysqladmin.Lines(recommended), line) != (given == nil) {
				t.Errorf("%s, the server lacks %v", what, mysqladmin.Lines(recommended))
			}
		}
	})
}

// Each engine besides InnoDB has to be disabled.
func TestEachEngineHasToBeDisabled(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		if s.Flavour == "mariadb" { // where one setting is for all of them
			return
		}
		f := newFixture(t, testdrive.PrivateWith(t, s.Flavour,
			"disabled_storage_engines=MyISAM,BLACKHOLE,FEDERATED,ARCHIVE,MEMORY,MRG_MYISAM")) // all but CSV
		_, err := f.server.Setup.CheckSettings(t.Context())
		_, ok := errors.AsType[*mysqladmin.SettingsError](err)
		assert.True(t, ok, "where CSV is not disabled: %v", err)
	})
}
