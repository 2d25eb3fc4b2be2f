package mysqladmin

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"mysql-broker/provisioner/plan"
)

// writePrivileges are the privileges by which data grow, in a database or in the server's temporary files. With
// the others, an account can read, dump and delete: TRUNCATE needs DROP, and dropping routines needs ALTER ROUTINE.
// Routines, triggers and events run with the privileges of an account of the same instance, so that they cannot write
// either. Triggers and events can be neither created nor dropped, which needs TRIGGER or EVENT; triggers are dropped
// with their tables.
// https://dev.mysql.com/doc/refman/8.4/en/privileges-provided.html
var writePrivileges = []string{"INSERT", "UPDATE", "CREATE", "ALTER", "INDEX", "REFERENCES", "CREATE TEMPORARY TABLES",
	"CREATE VIEW", "CREATE ROUTINE", "TRIGGER", eventPrivilege}

// RemovePrivileges leaves an account what its role has besides the write privileges, also after Freeze: it can
// read and delete. It kills the account's open sessions, which would keep what they had. Read-only accounts are left
// alone, and one whose role is not known ("") gets nothing. A missing account is no error.
func (on Writes) RemovePrivileges(ctx context.Context, account string, role plan.Role, database string) error {
	if role == plan.ReadOnly {
		return nil
	}
	if role != "" {
		err := on.s.execAccount(ctx, grant(strings.Join(on.readAndDelete(role), ", "), database), account)
		if hasNumber(err, errGrantNoSuchAccount, errNoSuchAccount) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("grant account %s what it needs to delete: %w", account, err)
		}
	}
	if err := on.revoke(ctx, account, database, writePrivileges...); err != nil {
		return fmt.Errorf("remove the write privileges of account %s: %w", account, err)
	}
	// Pending logins get the new privileges, so there is no need to wait for them.
	open, err := on.s.connections(ctx, func(c connection) bool { return c.user == account })
	if err != nil {
		return err
	}
	return on.s.killEach(ctx, open)
}

// readAndDelete are the privileges of a role without the write privileges.
func (on Writes) readAndDelete(role plan.Role) []string {
	return slices.DeleteFunc(on.s.dialect.list(role), func(privilege string) bool {
		return slices.Contains(writePrivileges, privilege)
	})
}

// revoke revokes those of the privileges on a database that an account has. A missing account is no error. MySQL
// refuses the whole statement if the account lacks one of several privileges, and has REVOKE IF EXISTS only since
// 8.0.30.
// https://dev.mysql.com/doc/refman/8.4/en/revoke.html
func (on Writes) revoke(ctx context.Context, account, database string, privileges ...string) error {
	err := on.s.execAccount(ctx, "REVOKE "+strings.Join(privileges, ", ")+" ON "+anyTable(database)+" FROM ?@'%'", account)
	if !hasNumber(err, errNoSuchGrant) {
		return err
	}
	if len(privileges) == 1 {
		return nil
	}
	for _, privilege := range privileges {
		if err := on.revoke(ctx, account, database, privilege); err != nil {
			return err
		}
	}
	return nil
}

const (
	// idlePatience is how long RestorePrivileges waits for a session to be idle. Sessions of a busy pool are idle
	// between two statements.
	idlePatience = time.Second
	// idlePollInterval is longer than 0.1 s: the server updates innodb_trx only if nobody has read it for that long.
	// https://dev.mysql.com/doc/refman/8.4/en/innodb-information-schema-internal-data.html
	idlePollInterval = 150 * time.Millisecond
)

// RestorePrivileges grants an account all privileges of its role or, if the role is not known (""), those that
// RemovePrivileges revokes. It grants EVENT if events is true, and revokes it otherwise. Open sessions keep their
// old privileges, so that they are killed once they are idle and outside of a transaction. Sessions that are busy for
// longer than a second, because they delete much for example, must reconnect by themselves. A missing account is no
// error.
func (on Writes) RestorePrivileges(ctx context.Context, account string, role plan.Role, events bool,
	database string) error {
	if role == plan.ReadOnly {
		return nil
	}
	statement := on.s.dialect.grantStatement(role, events, database)
	if role == "" {
		statement = grant(strings.Join(slices.DeleteFunc(slices.Clone(writePrivileges), func(privilege string) bool {
			return privilege == eventPrivilege && !events
		}), ", "), database)
	}
	err := on.s.execAccount(ctx, statement, account)
	if err == nil && !events {
		err = on.revoke(ctx, account, database, eventPrivilege)
	}
	if hasNumber(err, errGrantNoSuchAccount, errNoSuchAccount) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("release account %s: %w", account, err)
	}
	open, err := on.s.connections(ctx, func(c connection) bool { return c.user == account })
	if err != nil || len(open) == 0 {
		return err
	}
	former := map[int64]bool{} // sessions with the old privileges
	for _, c := range open {
		former[c.id] = true
	}
	for deadline := time.Now().Add(idlePatience); len(open) > 0 && time.Now().Before(deadline); {
		if err := wait(ctx, idlePollInterval); err != nil {
			return err
		}
		if open, err = on.s.connections(ctx, func(c connection) bool { return former[c.id] }); err != nil {
			return err
		}
		if err := on.endIdle(ctx, open); err != nil {
			return err
		}
	}
	return nil
}

// endIdle kills those of the connections that are idle and outside of a transaction.
func (on Writes) endIdle(ctx context.Context, open []connection) error {
	busy, err := on.inTransaction(ctx)
	if err != nil {
		return err
	}
	for _, c := range open {
		if c.idle && !busy[c.id] {
			if err := on.s.kill(ctx, c.id); err != nil {
				return err
			}
		}
	}
	return nil
}

// inTransaction finds the connections with an open transaction that has used InnoDB. It may miss transactions that
// began less than 0.1 s ago.
// https://dev.mysql.com/doc/refman/8.4/en/information-schema-innodb-trx-table.html
func (on Writes) inTransaction(ctx context.Context) (map[int64]bool, error) {
	found := map[int64]bool{}
	err := EachRow(ctx, on.s.conn, "SELECT trx_mysql_thread_id FROM information_schema.innodb_trx",
		func(rows *sql.Rows) error {
			var id int64
			err := rows.Scan(&id)
			found[id] = true
			return err
		})
	return found, on.s.fail("list transactions", err)
}
