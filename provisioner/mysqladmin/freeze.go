package mysqladmin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"mysql-broker/provisioner/plan"
)

// rollbackPatience is how long Freeze waits until transactions of the killed sessions are rolled back.
const rollbackPatience = time.Minute

// Freeze leaves an account only what it takes to read a database, also through views that call functions. Objects of
// which the account is the definer change nothing any more, and its events fail. Call EndWrites afterwards. A missing
// account is no error.
func (s *Session) Freeze(ctx context.Context, account string, role plan.Role, events bool, database string) error {
	if role == plan.ReadOnly {
		return nil
	}
	if err := s.revoke(ctx, account, database, s.changing(role, events)...); err != nil {
		return fmt.Errorf("freeze account %s: %w", account, err)
	}
	return nil
}

// EndWrites kills the sessions of frozen accounts, which keep their privileges, and waits until their transactions have
// ended.
func (s *Session) EndWrites(ctx context.Context, frozen map[string]bool) error {
	// Pending logins get the new privileges.
	open, err := s.connections(ctx, func(c connection) bool { return frozen[c.user] })
	if err == nil {
		err = s.killEach(ctx, open)
	}
	if err == nil && len(open) > 0 {
		err = s.awaitEnd(ctx, open)
	}
	if err != nil {
		return fmt.Errorf("end what frozen accounts write: %w", err)
	}
	return nil
}

// changing are the privileges of a role without those to read.
func (s *Session) changing(role plan.Role, events bool) []string {
	list := privileges[plan.ReadWrite]
	if role == plan.Admin {
		list += s.dialect.adminPrivileges
	}
	if events {
		list += ", " + eventPrivilege
	}
	var changing []string
	for _, privilege := range strings.Split(list, ", ") {
		switch privilege {
		case "SELECT", "SHOW VIEW", "EXECUTE":
		default:
			changing = append(changing, privilege)
		}
	}
	return changing
}

// awaitEnd waits until killed connections have no transaction any more. What they had begun when they were killed can
// still be committed until then.
func (s *Session) awaitEnd(ctx context.Context, killed []connection) error {
	for deadline := time.Now().Add(rollbackPatience); time.Now().Before(deadline); {
		select { // at least once: the list may be as old as that
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(idlePollInterval):
		}
		busy, err := s.inTransaction(ctx)
		if err != nil {
			return err
		}
		left := false
		for _, c := range killed {
			left = left || busy[c.id]
		}
		if !left {
			return nil
		}
	}
	return fmt.Errorf("transactions of killed sessions were not rolled back within %v", rollbackPatience)
}

// Thaw undoes Freeze. The account's sessions are killed when they are idle, because they keep their privileges. A
// restricted account gets no write privileges. A missing account is no error.
func (s *Session) Thaw(ctx context.Context, account string, role plan.Role, events, restricted bool,
	database string) error {
	if err := s.RestoreWritePrivileges(ctx, account, role, events, database); err != nil || !restricted {
		return err
	}
	return s.RemoveWritePrivileges(ctx, account, role, database)
}

// PreparedXA reports whether the server has prepared XA transactions, whose changes are neither committed nor rolled
// back when their session ends.
func (s *Session) PreparedXA(ctx context.Context) (bool, error) {
	prepared, err := preparedXA(ctx, s.conn)
	if err != nil {
		s.failed = true
		return false, fmt.Errorf("list prepared XA transactions: %w", err)
	}
	return len(prepared) > 0, nil
}
