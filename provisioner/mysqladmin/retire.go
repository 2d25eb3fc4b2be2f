package mysqladmin

import (
	"context"
	"crypto/rand"
	"fmt"
)

// RetireAccount ends an account's access at once, open sessions included, and drops it. Where it is the definer of a
// view, trigger, routine or event in the database, which would break without it, it is kept, locked and with a password
// that nobody knows, until DropAccount; role is what it may do then, as before. A missing account is fine.
// https://dev.mysql.com/doc/refman/8.4/en/stored-objects-security.html#stored-objects-security-orphan-objects
func (s *Session) RetireAccount(ctx context.Context, account string, role Role, database string) (
	kept bool, err error) {
	kept, err = s.retire(ctx, account, database, s.server.refusesOrphans.Load())
	if err == nil && kept {
		kept, err = s.keepLocked(ctx, account, role, database)
	}
	if err != nil {
		return false, fmt.Errorf("retire account %s: %w", account, err)
	}
	return kept, nil
}

// retire drops an account, unless it has to be kept. To lock it first would be one more of the statements that are slow
// where there are many accounts, only for those who define something between being asked and being dropped: their
// account is made again.
func (s *Session) retire(ctx context.Context, account, database string, refusesOrphans bool) (keep bool, err error) {
	if !refusesOrphans {
		if keep, err = s.defines(ctx, account, database); err != nil || keep {
			return keep, err
		}
	}
	err = s.dropUser(ctx, account)
	if hasNumber(err, errIsDefiner) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	ended, err := s.endSessions(ctx, account)
	if err != nil || !ended || refusesOrphans {
		return false, err
	}
	return s.defines(ctx, account, database)
}

// keepLocked locks an account, which it makes if it is gone. MySQL refuses that to whom it refuses to drop definers, so
// that there it was not the broker who dropped it: then nothing is kept.
func (s *Session) keepLocked(ctx context.Context, account string, role Role, database string) (kept bool, err error) {
	lock := func(verb string) error {
		return withholdMessage(s.execAccount(ctx, verb+" ?@'%' "+s.dialect.identified+" ACCOUNT LOCK", account,
			s.dialect.hash(rand.Text())))
	}
	err = lock("ALTER USER")
	if hasNumber(err, errCannotUser) { // it is gone
		if err = lock("CREATE USER"); hasNumber(err, errIsDefiner) {
			return false, nil
		}
		if err == nil {
			err = s.execAccount(ctx, grantStatement(role, database), account)
		}
	}
	if err == nil {
		_, err = s.endSessions(ctx, account)
	}
	return true, err
}

// DropAccount ends an account's access at once and drops it, whatever it defines: drop the database first. A missing
// account is fine.
func (s *Session) DropAccount(ctx context.Context, account string) error {
	err := s.dropUser(ctx, account)
	if err == nil {
		_, err = s.endSessions(ctx, account)
	}
	if err != nil {
		return fmt.Errorf("drop account %s: %w", account, err)
	}
	return nil
}

// endSessions kills the sessions of an account that lets nobody in any more, and tells whether there may have been any:
// neither a lock nor DROP USER ends them. A login that was under way at that moment can still succeed, so they are
// killed again after such logins.
func (s *Session) endSessions(ctx context.Context, account string) (any bool, err error) {
	found, err := s.connections(ctx, func(c connection) bool { return c.user == account || c.underWay() })
	if err != nil || len(found) == 0 {
		return false, err
	}
	var own, logins []connection
	for _, c := range found {
		if c.underWay() {
			logins = append(logins, c)
		} else {
			own = append(own, c)
		}
	}
	if err := s.killEach(ctx, own); err != nil || len(logins) == 0 {
		return true, err
	}
	if err := s.awaitLogins(ctx, logins); err != nil {
		return true, err
	}
	found, err = s.connections(ctx, func(c connection) bool { return c.user == account })
	if err != nil {
		return true, err
	}
	return true, s.killEach(ctx, found)
}

func (s *Session) dropUser(ctx context.Context, account string) error {
	return s.execAccount(ctx, "DROP USER IF EXISTS ?@'%'", account)
}
