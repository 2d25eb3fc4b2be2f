// Package galera is what launchers do for a group of MariaDB servers with Galera, beside what it has in common with
// groups of MySQL (package mysqlgroup). The group itself decides which members belong to it, and all of them accept
// writes. A member joins, or begins the group, as its server starts.
package galera

import (
	"context"
	"database/sql"
	"strconv"
	"strings"

	"mysql-broker/provisioner/launcher/mysqlgroup"
	"mysql-broker/provisioner/wsrep"
)

// Alone is the state of a member that has no majority, or does not take part yet.
const Alone = "ALONE"

// Ask reads what a member says of itself. Err is set if that fails.
// https://mariadb.com/docs/galera-cluster/reference/galera-cluster-status-variables
func Ask(ctx context.Context, member *sql.Conn) (m mysqlgroup.Look, err error) {
	status := map[string]string{}
	err = readPairs(ctx, member, status, `SHOW GLOBAL STATUS WHERE Variable_name IN
		('wsrep_ready', 'wsrep_local_state', 'wsrep_cluster_status', 'wsrep_local_recv_queue', 'wsrep_last_committed',
		'wsrep_incoming_addresses')`)
	if err == nil {
		err = readPairs(ctx, member, status, "SHOW GLOBAL VARIABLES LIKE 'wsrep_node_name'")
	}
	if err == nil {
		m.Blocked, err = wsrep.MayWait(ctx, member)
	}
	if err == nil {
		m.Events, err = mysqlgroup.AskEvents(ctx, member)
	}
	if err != nil {
		return mysqlgroup.Look{Err: err}, err
	}
	if what, waits := strings.CutPrefix(status["wsrep_node_name"], waits); waits {
		m.State, m.Executed = Waiting, strings.TrimPrefix(what, "empty")
		return m, nil
	}
	m.Queue, _ = strconv.Atoi(status["wsrep_local_recv_queue"])
	m.Executed = status["wsrep_last_committed"]
	m.Majority = status["wsrep_cluster_status"] == "Primary"
	m.Knows = strings.Split(status["wsrep_incoming_addresses"], ",")
	m.Gives = status["wsrep_local_state"] == "2"
	complete := m.Gives || status["wsrep_local_state"] == "4" // it is synchronized
	switch {
	case m.Majority && status["wsrep_ready"] == "ON" && complete:
		m.State, m.Primary = "ONLINE", true
	case m.Majority:
		m.State = "RECOVERING"
	default:
		m.State = Alone
	}
	return m, nil
}

// readPairs reads a SHOW statement, which a member without a majority answers too.
func readPairs(ctx context.Context, member *sql.Conn, into map[string]string, query string) error {
	rows, err := member.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return err
		}
		into[name] = value
	}
	return rows.Err()
}

// Unblock ends all sessions on a member that has been blocked for BlockedTime, but those of the server itself and this
// one, and reports whether it did. Galera rolls transactions back that are in its way, but not LOCK TABLES: until the
// session with the lock ends, no member could execute DDL, such as that which ends an account. Unblock waits for such a
// rollback.
func Unblock(ctx context.Context, member *sql.Conn) (ended bool, err error) {
	var rollsBack bool
	err = member.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM information_schema.innodb_trx
		WHERE trx_state = 'ROLLING BACK')`).Scan(&rollsBack)
	if err != nil || rollsBack {
		return false, err
	}
	if waits, err := wsrep.Waits(ctx, member, BlockedTime); err != nil || !waits {
		return false, err
	}
	_, err = member.ExecContext(ctx, `BEGIN NOT ATOMIC
		FOR s IN (SELECT id FROM information_schema.processlist
			WHERE user NOT IN ('system user', 'event_scheduler') AND id <> CONNECTION_ID()) DO
			BEGIN
				-- It has ended, or the group executes its statement.
				DECLARE CONTINUE HANDLER FOR 1094, 1095 BEGIN END;
				KILL s.id;
			END;
		END FOR;
	END`)
	return err == nil, err
}

// Lead makes one of the members that are online the primary: the one that applications use now, unless it gives its
// data to another one, and does not commit meanwhile. now is -1 if they use none.
func Lead(all []mysqlgroup.Look, now int) {
	lead := -1
	if now >= 0 && all[now].Online() {
		lead = now
	}
	for n, m := range all {
		if m.Online() && (lead < 0 || all[lead].Gives && !m.Gives) {
			lead = n
		}
	}
	for n := range all {
		all[n].Primary = n == lead
	}
}
