package mysqladmin

import (
	"context"
	"crypto/rand"
	"fmt"
)

// definesObjects takes a database and a definer, four times.
const definesObjects = `SELECT
	EXISTS (SELECT 1 FROM information_schema.views WHERE table_schema = ? AND definer = ?) OR
	EXISTS (SELECT 1 FROM information_schema.triggers WHERE trigger_schema = ? AND definer = ?) OR
	EXISTS (SELECT 1 FROM information_schema.routines WHERE routine_schema = ? AND definer = ?) OR
	EXISTS (SELECT 1 FROM information_schema.events WHERE event_schema = ? AND definer = ?)`

// RetireAccount ends an account's access at once, open sessions included, and drops it. Where it is the definer of a
// view, trigger, routine or event in the database, which would break without it, it is kept, locked and with a password
// that nobody knows, until DropAccount. A missing account is fine.
// https://dev.mysql.com/doc/refman/8.4/en/stored-objects-security.html#stored-objects-security-orphan-objects
func (s *Session) RetireAccount(ctx context.Context, account, database string) (kept bool, err error) {
	kept, err = s.retire(ctx, account, database)
	if err != nil {
		return false, fmt.Errorf("retire account %s: %w", account, err)
	}
	return kept, nil
}

func (s *Session) retire(ctx context.Context, account, database string) (kept bool, err error) {
	found, err := s.exists(ctx, accountExists, account)
	if err != nil || !found {
		return false, err
	}
	if err := s.shutOut(ctx, account); err != nil {
		return false, err
	}
	definer := account + "@%"
	kept, err = s.exists(ctx, definesObjects,
		database, definer, database, definer, database, definer, database, definer)
	if err != nil {
		return false, err
	}
	if kept {
		return true, s.scramblePassword(ctx, account)
	}
	return false, s.dropUser(ctx, account)
}

// DropAccount ends an account's access at once and drops it, whatever it defines: drop the database first. A missing
// account is fine.
func (s *Session) DropAccount(ctx context.Context, account string) error {
	err := s.shutOut(ctx, account)
	if err == nil {
		err = s.dropUser(ctx, account)
	}
	if err != nil {
		return fmt.Errorf("drop account %s: %w", account, err)
	}
	return nil
}

// shutOut locks an account and kills its sessions, which neither a lock nor DROP USER would end. A login that was under
// way when the lock came can still succeed, so sessions are killed again after such logins.
func (s *Session) shutOut(ctx context.Context, account string) error {
	if err := s.exec(ctx, "ALTER USER IF EXISTS ?@'%' ACCOUNT LOCK", account); err != nil {
		return err
	}
	if err := s.killAll(ctx, "user = ?", account); err != nil {
		return err
	}
	if err := s.awaitLogins(ctx); err != nil {
		return err
	}
	return s.killAll(ctx, "user = ?", account)
}

func (s *Session) scramblePassword(ctx context.Context, account string) error {
	return withholdMessage(s.exec(ctx, "ALTER USER ?@'%' "+s.dialect.identified+" ACCOUNT LOCK", account, rand.Text()))
}

func (s *Session) dropUser(ctx context.Context, account string) error {
	return s.exec(ctx, "DROP USER IF EXISTS ?@'%'", account)
}
