package mysqladmin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"mysql-broker/provisioner/plan"
)

// rollbackPatience is how long End waits for killed sessions to roll back. Most have nothing, or little, to roll
// back.
const rollbackPatience = time.Second

// endPollInterval is how often End looks at first whether killed sessions have ended.
const endPollInterval = 5 * time.Millisecond

// xaPatience is how long BlockedByXA waits for locks, in seconds. Writers wait for as long.
const xaPatience = 2

// Freeze leaves an account only what it takes to read a database, also through views that call functions. Objects of
// which the account is the definer change nothing any more, and its events fail. Call End afterwards. A missing
// account is no error.
func (on Writes) Freeze(ctx context.Context, account string, role plan.Role, events bool, database string) error {
	if role == plan.ReadOnly {
		return nil
	}
	return explain("freeze account "+account, on.revoke(ctx, account, database, on.changing(role, events)...))
}

// End kills the sessions of frozen accounts, which keep their privileges, and waits until their transactions have
// ended. It returns the connections that take longer, because much is rolled back: call RollingBack with them until
// there are none.
func (on Writes) End(ctx context.Context, frozen map[string]bool) (left []int64, err error) {
	// Pending logins get the new privileges.
	open, err := on.s.connections(ctx, func(c connection) bool { return frozen[c.user] })
	if err == nil {
		err = on.s.killEach(ctx, open)
	}
	for _, c := range open {
		left = append(left, c.id)
	}
	// Most end at once. For the others, there is another round at least, because the list of transactions may be old.
	for began := time.Now(); err == nil && len(left) > 0 && time.Since(began) < idlePollInterval; {
		if left, err = on.unended(ctx, left); err == nil && len(left) > 0 {
			err = wait(ctx, endPollInterval)
		}
	}
	for began := time.Now(); err == nil && len(left) > 0 && time.Since(began) < rollbackPatience; {
		if err = wait(ctx, idlePollInterval); err == nil {
			left, err = on.RollingBack(ctx, left)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("end what frozen accounts write: %w", err)
	}
	return left, nil
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// unended returns those of the killed connections that the server still lists: it forgets them when their transactions
// have ended. Those on other nodes are not looked up.
func (on Writes) unended(ctx context.Context, killed []int64) (left []int64, err error) {
	all, err := on.s.server.processList(ctx, on.s.conn)
	if err != nil {
		return nil, on.s.fail("list sessions", err)
	}
	there := map[int64]bool{}
	for _, c := range all {
		there[c.id] = true
	}
	return slices.DeleteFunc(slices.Clone(killed), func(id int64) bool { return !there[id] && id>>nodeShift == 0 }), nil
}

// RollingBack returns those of the connections that still have a transaction. What they had begun when they were killed
// can be committed until then.
func (on Writes) RollingBack(ctx context.Context, killed []int64) (left []int64, err error) {
	busy, err := on.inTransaction(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(killed), func(id int64) bool { return !busy[id] }), nil
}

// changing are the privileges of a role without those to read.
func (on Writes) changing(role plan.Role, events bool) []string {
	list := slices.DeleteFunc(on.s.dialect.list(role), func(privilege string) bool {
		return privilege == "SELECT" || privilege == "SHOW VIEW" || privilege == "EXECUTE"
	})
	if events {
		list = append(list, eventPrivilege)
	}
	return list
}

// BlockedByXA reports whether the server has prepared XA transactions, whose changes are neither committed nor rolled
// back when their session ends, and one of them may have changed the database. Servers do not say which database that
// is. But a transaction that has changed a table keeps a lock on it, so that nobody else can lock the table against
// changes. While others still write to the database, their locks look the same.
func (on Writes) BlockedByXA(ctx context.Context, database string) (blocked bool, err error) {
	prepared, err := preparedXA(ctx, on.s.conn)
	if err == nil && len(prepared) > 0 {
		blocked, err = on.locked(ctx, database)
	}
	return blocked, on.s.fail("find prepared XA transactions", err)
}

// locked reports whether the tables of a database cannot be locked against changes.
func (on Writes) locked(ctx context.Context, database string) (bool, error) {
	tables, err := on.s.Databases.Tables(ctx, database)
	if err != nil || len(tables) == 0 {
		return false, err
	}
	for n, name := range tables {
		tables[n] = quoteIdentifier(database) + "." + quoteIdentifier(name) + " READ"
	}
	on.s.failed = true // nobody else gets the connection with these settings
	// Without autocommit, InnoDB locks the tables too. After a restart, only these locks are left of a transaction.
	// https://dev.mysql.com/doc/refman/8.4/en/innodb-parameters.html#sysvar_innodb_table_locks
	if _, err := on.s.conn.ExecContext(ctx, fmt.Sprintf("SET SESSION autocommit = 0, innodb_table_locks = 1, "+
		"lock_wait_timeout = %d, innodb_lock_wait_timeout = %[1]d", xaPatience)); err != nil {
		return false, err
	}
	_, err = on.s.conn.ExecContext(ctx, "LOCK TABLES "+strings.Join(tables, ", "))
	if hasNumber(err, errLockWaitTimeout) {
		return true, nil
	}
	if err == nil {
		_, err = on.s.conn.ExecContext(ctx, "UNLOCK TABLES")
	}
	return false, err
}
