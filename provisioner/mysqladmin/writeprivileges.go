package mysqladmin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"mysql-broker/provisioner/plan"
)

// writePrivileges are the privileges by which data grow, in a database or in the server's temporary files. What remains
// lets an account read, dump and remove: TRUNCATE needs DROP, and to remove routines takes ALTER ROUTINE. What
// routines, triggers and events execute is refused as well, as it uses the privileges of an account of the same
// instance; triggers and events themselves can neither be made nor removed, as either takes TRIGGER or EVENT: triggers
// go with their tables.
// https://dev.mysql.com/doc/refman/8.4/en/privileges-provided.html
var writePrivileges = []string{"INSERT", "UPDATE", "CREATE", "ALTER", "INDEX", "REFERENCES", "CREATE TEMPORARY TABLES",
	"CREATE VIEW", "CREATE ROUTINE", "TRIGGER", eventPrivilege}

// RemoveWritePrivileges takes the privileges by which data grow from an account, and ends its open sessions, which
// would keep them. Meanwhile it reads and deletes as before. Read-only accounts have none of them and are left alone; a
// missing account is fine.
func (s *Session) RemoveWritePrivileges(ctx context.Context, account string, role plan.Role, database string) error {
	if role == plan.ReadOnly {
		return nil
	}
	if err := s.revoke(ctx, account, database, writePrivileges...); err != nil {
		return fmt.Errorf("remove the write privileges of account %s: %w", account, err)
	}
	// Pending logins get what the account has now, and need not be waited for.
	open, err := s.connections(ctx, func(c connection) bool { return c.user == account })
	if err != nil {
		return err
	}
	return s.killEach(ctx, open)
}

// revoke takes privileges in a database from an account, whichever of them it has; a missing account is fine. MySQL
// refuses the whole statement where one of several is lacking, and takes REVOKE IF EXISTS only from 8.0.30 on.
// https://dev.mysql.com/doc/refman/8.4/en/revoke.html
func (s *Session) revoke(ctx context.Context, account, database string, privileges ...string) error {
	err := s.execAccount(ctx, "REVOKE "+strings.Join(privileges, ", ")+" ON "+anyTable(database)+" FROM ?@'%'", account)
	if !hasNumber(err, errNoSuchGrant) {
		return err
	}
	if len(privileges) == 1 {
		return nil
	}
	for _, privilege := range privileges {
		if err := s.revoke(ctx, account, database, privilege); err != nil {
			return err
		}
	}
	return nil
}

const (
	// idlePatience is how long RestoreWritePrivileges waits for a session to be idle, which those of a busy pool are
	// between any two statements.
	idlePatience = time.Second
	// idlePollInterval is longer than the 0.1 s for which nobody may have read innodb_trx if it is to be up to date:
	// https://dev.mysql.com/doc/refman/8.4/en/innodb-information-schema-internal-data.html
	idlePollInterval = 150 * time.Millisecond
)

// RestoreWritePrivileges gives an account all privileges of its role, whatever it had, or what RemoveWritePrivileges
// took if the role is not known (""); EVENT only if it may make events, and else takes that. Open sessions keep what
// they had: they are ended as soon as they are idle, outside of a transaction. Those that are not within a second, as
// they delete much, for example, have to reconnect by themselves. A missing account is fine.
func (s *Session) RestoreWritePrivileges(ctx context.Context, account string, role plan.Role, events bool,
	database string) error {
	if role == plan.ReadOnly {
		return nil
	}
	statement := s.dialect.grantStatement(role, events, database)
	if role == "" {
		statement = grant(strings.Join(slices.DeleteFunc(slices.Clone(writePrivileges), func(privilege string) bool {
			return privilege == eventPrivilege && !events
		}), ", "), database)
	}
	err := s.execAccount(ctx, statement, account)
	if err == nil && !events {
		err = s.revoke(ctx, account, database, eventPrivilege)
	}
	if hasNumber(err, errGrantNoSuchAccount) || hasNumber(err, errNoSuchAccount) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("release account %s: %w", account, err)
	}
	open, err := s.connections(ctx, func(c connection) bool { return c.user == account })
	if err != nil || len(open) == 0 {
		return err
	}
	former := map[int64]bool{} // sessions that began before
	for _, c := range open {
		former[c.id] = true
	}
	for deadline := time.Now().Add(idlePatience); len(open) > 0 && time.Now().Before(deadline); {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(idlePollInterval):
		}
		if open, err = s.connections(ctx, func(c connection) bool { return former[c.id] }); err != nil {
			return err
		}
		if err := s.endIdle(ctx, open); err != nil {
			return err
		}
	}
	return nil
}

// endIdle kills those of the connections that are idle and outside of a transaction.
func (s *Session) endIdle(ctx context.Context, open []connection) error {
	busy, err := s.inTransaction(ctx)
	if err != nil {
		return err
	}
	for _, c := range open {
		if !c.idle || busy[c.id] {
			continue
		}
		if err := s.kill(ctx, c.id); err != nil {
			return err
		}
	}
	return nil
}

// inTransaction finds the connections that have changed, or read, something of InnoDB in a transaction that is open. It
// may not know of those that began less than 0.1 s ago.
// https://dev.mysql.com/doc/refman/8.4/en/information-schema-innodb-trx-table.html
func (s *Session) inTransaction(ctx context.Context) (map[int64]bool, error) {
	rows, err := s.conn.QueryContext(ctx, "SELECT trx_mysql_thread_id FROM information_schema.innodb_trx")
	if err != nil {
		s.failed = true
		return nil, fmt.Errorf("list transactions: %w", err)
	}
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	found := map[int64]bool{}
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("list transactions: %w", err)
		}
		found[id] = true
	}
	return found, rows.Err()
}
