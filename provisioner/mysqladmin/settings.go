package mysqladmin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Setting is a setting of a shared server that keeps one tenant from taking the others down.
type Setting struct {
	Name     string // of the system variable
	Line     string // for the server's option file
	Required bool   // a server without it gets no instances; false: it is only recommended
	Why      string // what a tenant can do without it

	fulfilled func(v values) bool
}

// values are a server's system variables by name. On MySQL, there is also the support of each engine as "engine NAME",
// and in a group whether locks of tables are shown as "instrument mdl".
// On MariaDB, there is also the status of each plug-in as "plugin NAME", and the value that a session may raise
// max_session_mem_used to as "session max_session_mem_used", and on Galera the method that it may choose as "session
// wsrep_OSU_method".
type values map[string]string

// settings are the settings of each flavour, the required ones first. A recommended setting that the server's version
// does not have counts as fulfilled.
//
// MySQL: https://dev.mysql.com/doc/refman/8.4/en/server-system-variables.html
// MariaDB: https://mariadb.com/docs/server/server-management/variables-and-modes/server-system-variables
var settings = map[string][]Setting{
	MySQL: {
		{Name: "disabled_storage_engines", Required: true,
			Line:      "disabled_storage_engines=" + strings.Join(otherEngines, ","),
			Why:       "create tables of engines that hold files open without limit and escape storage quotas",
			fulfilled: disablesOtherEngines},
		{Name: "performance_schema", Line: "performance_schema=ON",
			Why:       "use memory without limit: connection_memory_limit counts nothing without it",
			fulfilled: isOn("performance_schema")},
		{Name: "connection_memory_limit", Line: "loose_connection_memory_limit=64M",
			Why:       "use the server's memory by statements and prepared statements of one session",
			fulfilled: isAtMost("connection_memory_limit", gibibyte)},
		{Name: "global_connection_memory_tracking", Line: "loose_global_connection_memory_tracking=ON",
			Why:       "use the server's memory by many sessions: global_connection_memory_limit counts nothing without it",
			fulfilled: isOn("global_connection_memory_tracking")},
		{Name: "global_connection_memory_limit", Line: "loose_global_connection_memory_limit=4G",
			Why:       "use the server's memory by many sessions",
			fulfilled: isAtMost("global_connection_memory_limit", math.MaxUint64-1)},
		{Name: "max_allowed_packet", Line: "max_allowed_packet=16M",
			Why:       "use the server's memory by large values",
			fulfilled: isAtMost("max_allowed_packet", 64*mebibyte)},
		manyPreparedStatements, fewOpenFiles,
		{Name: "innodb_data_file_path", Line: "innodb_data_file_path=ibdata1:12M:autoextend:max:64M",
			Why:       "grow ibdata1 for good, by TABLESPACE=innodb_system",
			fulfilled: isBounded("innodb_data_file_path")},
		filePerTable, truncatedUndo,
	},
	MariaDB: {
		{Name: "enforce_storage_engine", Required: true, Line: "enforce_storage_engine=InnoDB",
			Why:       "create tables of engines that hold files open without limit and escape storage quotas",
			fulfilled: func(v values) bool { return strings.EqualFold(v["enforce_storage_engine"], "InnoDB") }},
		{Name: "partition", Line: "partition=OFF",
			Why: "use up memory and files by tables of thousands of partitions, whose engine is not enforced where a " +
				"single partition names it",
			fulfilled: func(v values) bool { return v["plugin partition"] != "ACTIVE" }},
		{Name: "max_session_mem_used", Line: "max_session_mem_used=64M",
			Why:       "use the server's memory by statements and prepared statements of one session",
			fulfilled: isAtMost("max_session_mem_used", gibibyte)},
		{Name: "maximum-max_session_mem_used", Line: "maximum-max_session_mem_used=64M",
			Why:       "raise max_session_mem_used for its sessions",
			fulfilled: isAtMost("session max_session_mem_used", gibibyte)},
		{Name: "max_allowed_packet", Line: "max_allowed_packet=16M",
			Why:       "use the server's memory by large values",
			fulfilled: isAtMost("max_allowed_packet", 64*mebibyte)},
		{Name: "aria_pagecache_buffer_size", Line: "aria_pagecache_buffer_size=1536M",
			Why: "hang the server for good, by some ten sessions that write rows with thousands of texts into temporary " +
				"tables",
			fulfilled: isAtLeast("aria_pagecache_buffer_size", 1536*mebibyte)},
		manyPreparedStatements, fewOpenFiles,
		{Name: "innodb_temp_data_file_path", Line: "innodb_temp_data_file_path=ibtmp1:12M:autoextend:max:8G",
			Why:       "fill the disk with temporary tables",
			fulfilled: isBounded("innodb_temp_data_file_path")},
		filePerTable,
		{Name: "innodb_undo_tablespaces", Line: "innodb_undo_tablespaces=3",
			Why:       "grow ibdata1 for good, by long transactions",
			fulfilled: isAtLeast("innodb_undo_tablespaces", 2)},
		truncatedUndo,
	},
}

// See dialect.features.
const (
	engines = "SELECT CONCAT('engine ', ENGINE), SUPPORT FROM information_schema.ENGINES"

	// The statement raises the limit for itself as far as a tenant could.
	plugins = "SET STATEMENT max_session_mem_used = 9223372036854775807 FOR " +
		"SELECT CONCAT('plugin ', PLUGIN_NAME), PLUGIN_STATUS FROM information_schema.PLUGINS " +
		"UNION ALL SELECT 'session max_session_mem_used', @@SESSION.max_session_mem_used"
)

// otherEngines are the engines besides InnoDB whose tables a tenant of MySQL could create.
var otherEngines = []string{"MyISAM", "MRG_MYISAM", "MEMORY", "CSV", "ARCHIVE", "BLACKHOLE", "FEDERATED"}

// Settings of both flavours.
var (
	manyPreparedStatements = Setting{Name: "max_prepared_stmt_count", Line: "max_prepared_stmt_count=1000000",
		Why:       "take all prepared statements of the server, so that other tenants can prepare none",
		fulfilled: isAtLeast("max_prepared_stmt_count", 500_000)}
	fewOpenFiles = Setting{Name: "open_files_limit", Line: "open_files_limit=10000",
		Why:       "use up the server's files, by opening more tables than it may have files: innodb_open_files is too near",
		fulfilled: leavesFiles}
	filePerTable = Setting{Name: "innodb_file_per_table", Line: "innodb_file_per_table=ON",
		Why:       "grow ibdata1 for good",
		fulfilled: isOn("innodb_file_per_table")}
	truncatedUndo = Setting{Name: "innodb_undo_log_truncate", Line: "innodb_undo_log_truncate=ON",
		Why:       "grow the undo files for good, by long transactions",
		fulfilled: isOn("innodb_undo_log_truncate")}
)

const (
	mebibyte = 1 << 20
	gibibyte = 1 << 30
	// filesBesides is how many files a server may open besides those of tables and two for each connection.
	filesBesides = 1000
)

// SettingsError lists the settings that a shared server lacks and must have before it gets instances.
type SettingsError struct {
	Server  string
	Missing []Setting
}

func (e *SettingsError) Error() string {
	return fmt.Sprintf("server %s: one tenant could take it down; an administrator has to put into its option file, and "+
		"to restart it: %s;", e.Server, strings.Join(Lines(e.Missing), "; "))
}

// Lines returns the settings as lines of an option file.
func Lines(all []Setting) []string {
	lines := make([]string, len(all))
	for i, setting := range all {
		lines[i] = setting.Line
	}
	return lines
}

// CheckSettings finds the settings that a shared server lacks. It returns a *SettingsError if required ones are
// missing, and in any case the recommended ones that are missing. It changes nothing.
func (on Setup) CheckSettings(ctx context.Context) (recommended []Setting, err error) {
	flavour, err := on.s.Flavour(ctx)
	if err != nil {
		return nil, err
	}
	if err := on.checkNodes(ctx); err != nil {
		return nil, on.s.explain("check the nodes of the cluster", err)
	}
	v := values{}
	err = readPairs(ctx, on.s.reads, v, "SHOW GLOBAL VARIABLES")
	if err == nil {
		err = readPairs(ctx, on.s.reads, v, dialects[flavour.Name].features)
	}
	if err == nil && v["wsrep_on"] == "ON" {
		err = readPairs(ctx, on.s.reads, v, osuMethod)
	}
	if err == nil && v["group_replication_group_name"] != "" {
		err = on.needsPerformanceSchema(readPairs(ctx, on.s.reads, v, lockInstrument))
	}
	if err != nil {
		return nil, on.s.explain("check the server's settings", err)
	}
	var required []Setting
	for _, setting := range slices.Concat(clusterSettingsOf(flavour.Name, v), settings[flavour.Name]) {
		switch {
		case setting.fulfilled(v):
		case setting.Required:
			required = append(required, setting)
		default:
			recommended = append(recommended, setting)
		}
	}
	if len(required) > 0 {
		return recommended, &SettingsError{Server: on.s.config.Name, Missing: required}
	}
	return recommended, nil
}

func disablesOtherEngines(v values) bool {
	disabled := map[string]bool{}
	for name := range strings.SplitSeq(v["disabled_storage_engines"], ",") {
		disabled[strings.ToLower(strings.TrimSpace(name))] = true
	}
	for _, engine := range otherEngines {
		if support := v["engine "+engine]; (support == "YES" || support == "DEFAULT") && !disabled[strings.ToLower(engine)] {
			return false
		}
	}
	return true
}

// isBounded reports whether a list of InnoDB's data files limits the growth of the last one.
// https://dev.mysql.com/doc/refman/8.4/en/innodb-init-startup-configuration.html
func isBounded(name string) func(values) bool {
	return func(v values) bool {
		return !strings.Contains(v[name], ":autoextend") || strings.Contains(v[name], ":max:")
	}
}

func isOn(name string) func(values) bool {
	return func(v values) bool { return v[name] == "" || v[name] == "ON" }
}

func isAtMost(name string, most uint64) func(values) bool {
	return func(v values) bool { n, known := v.number(name); return !known || n <= most }
}

func isAtLeast(name string, least uint64) func(values) bool {
	return func(v values) bool { n, known := v.number(name); return !known || n >= least }
}

// leavesFiles reports whether the server can still open other files when InnoDB has as many open as it may.
func leavesFiles(v values) bool {
	files, _ := v.number("open_files_limit")
	tables, _ := v.number("innodb_open_files")
	connections, _ := v.number("max_connections")
	return files >= tables+2*connections+filesBesides
}

func (v values) number(name string) (n uint64, known bool) {
	n, err := strconv.ParseUint(v[name], 10, 64)
	return n, err == nil
}

// clusterSettings are the settings of each flavour for servers that are nodes of a cluster.
//
// MySQL: https://dev.mysql.com/doc/refman/8.4/en/group-replication-requirements.html
// MariaDB: https://mariadb.com/docs/galera-cluster/reference/galera-cluster-system-variables
var clusterSettings = map[string][]Setting{
	MySQL: {
		{Name: "group_replication_single_primary_mode", Required: true, Line: "group_replication_single_primary_mode=ON",
			Why:       "change the same rows on several nodes at once, which the group then refuses to commit",
			fulfilled: isOn("group_replication_single_primary_mode")},
		{Name: "performance_schema_instrument", Required: true,
			Line:      "performance-schema-instrument='wait/lock/metadata/sql/mdl=ON'",
			Why:       "hold all nodes up for as long as they like, by a lock on a table of a node that is not the primary",
			fulfilled: func(v values) bool { return v["instrument mdl"] == "YES" }},
		{Name: "group_replication_exit_state_action", Line: "group_replication_exit_state_action=OFFLINE_MODE",
			Why: "read on, in a session of an account that was ended, on a member that was cut off from the group",
			fulfilled: func(v values) bool {
				action := v["group_replication_exit_state_action"]
				return action == "OFFLINE_MODE" || action == "ABORT_SERVER"
			}},
		{Name: "sql_require_primary_key", Line: "sql_require_primary_key=ON",
			Why:       "create tables without a primary key, into which the group then refuses every row (error 3098)",
			fulfilled: isOn("sql_require_primary_key")},
	},
	MariaDB: {
		{Name: "wsrep_OSU_method", Required: true, Line: "wsrep_OSU_method=TOI",
			Why:       "keep an account or a database that the broker has dropped on one node only",
			fulfilled: func(v values) bool { return v["wsrep_OSU_method"] == "TOI" || v["wsrep_osu_method"] == "TOI" }},
		// Not required, because it was not tried on every version.
		{Name: "maximum-wsrep_OSU_method", Line: "maximum-wsrep_OSU_method=TOI",
			Why: "take nodes out of the cluster, by setting wsrep_OSU_method to RSU and making a table on one node " +
				"only",
			fulfilled: func(v values) bool { return v["session wsrep_OSU_method"] == "TOI" }},
		{Name: "wsrep_dirty_reads", Line: "wsrep_dirty_reads=OFF",
			Why:       "read on, in a session of an account that was ended, on a node that was cut off from the cluster",
			fulfilled: func(v values) bool { return v["wsrep_dirty_reads"] == "OFF" }},
		{Name: "innodb_force_primary_key", Line: "innodb_force_primary_key=ON",
			Why:       "create tables without a primary key, whose rows differ between nodes and stop replication",
			fulfilled: isOn("innodb_force_primary_key")},
	},
}

// osuMethod reads what a session may set wsrep_OSU_method to: RSU, unless the server's maximum is TOI, the value before
// it. Servers without Galera have no such variable.
const osuMethod = "SET STATEMENT wsrep_OSU_method = RSU FOR " +
	"SELECT 'session wsrep_OSU_method', @@SESSION.wsrep_OSU_method"

// lockInstrument reads whether a server of MySQL tells who holds locks of tables, as it does by default.
const lockInstrument = `SELECT 'instrument mdl', COALESCE(MAX(enabled), 'NO') FROM performance_schema.setup_instruments
	WHERE name = 'wait/lock/metadata/sql/mdl'`

// needsPerformanceSchema says what to do if an error is that of a missing privilege on tables of Group Replication.
func (on Setup) needsPerformanceSchema(err error) error {
	if lacks, _ := accessDenied(err); lacks {
		return fmt.Errorf("an administrator has to run: GRANT SELECT ON performance_schema.* TO %s", on.s.config.User)
	}
	return err
}

// clusterSettingsOf are the settings for a server of that flavour with these variables: none unless it is a node of a
// cluster.
func clusterSettingsOf(flavour string, v values) []Setting {
	if flavour == MariaDB && v["wsrep_on"] == "ON" || flavour == MySQL && v["group_replication_group_name"] != "" {
		return clusterSettings[flavour]
	}
	return nil
}

// checkNodes returns an error if the servers of a list are not a cluster, or not all of its members.
func (on Setup) checkNodes(ctx context.Context) error {
	if on.s.nodes == nil {
		return nil
	}
	here, err := member(ctx, on.s.reads)
	if err != nil {
		return on.needsPerformanceSchema(err)
	}
	if here.cluster == "" {
		return errors.New("its uri lists several hosts, which are no cluster of Galera or Group Replication")
	}
	if here.members > len(on.s.nodes.all) {
		return &nodeMissingError{members: here.members, reached: len(on.s.nodes.all)}
	}
	return nil
}
