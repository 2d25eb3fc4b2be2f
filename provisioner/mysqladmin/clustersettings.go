package mysqladmin

import (
	"context"
	"errors"
	"fmt"
)

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
func (s *Server) needsPerformanceSchema(err error) error {
	if lacks, _ := accessDenied(err); lacks {
		return fmt.Errorf("an administrator has to run: GRANT SELECT ON performance_schema.* TO %s", s.config.User)
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
func (s *Server) checkNodes(ctx context.Context) error {
	if s.nodes == nil {
		return nil
	}
	conn, err := s.reads.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	here, err := member(ctx, conn)
	if err != nil {
		return s.needsPerformanceSchema(err)
	}
	if here.group == "" {
		return errors.New("its uri lists several hosts, which are no cluster of Galera or Group Replication")
	}
	if here.members > len(s.nodes.all) {
		return &nodeMissingError{members: here.members, reached: len(s.nodes.all)}
	}
	return nil
}
