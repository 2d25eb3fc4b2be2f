package mysqladmin

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	"mysql-broker/provisioner/plan"
)

// RevokeAccess ends an account's access at once, open sessions included, and drops it. Where it is the definer of a
// view, trigger, routine or event in the database, which would break without it, or where the server cannot tell, it is
// kept, locked and with a password that nobody knows, until DropAccount; role is what it may do then, as before. A
// missing account is fine.
//
// The account is shut before anything is asked that depends on what a tenant has made. Whatever fails afterwards leaves
// nobody in.
// https://dev.mysql.com/doc/refman/8.4/en/stored-objects-security.html#stored-objects-security-orphan-objects
func (s *Session) RevokeAccess(ctx context.Context, account string, role plan.Role,
	database string) (kept bool, err error) {
	kept, err = s.revokeAccess(ctx, account, role, database)
	if err != nil {
		return false, fmt.Errorf("revoke the access of account %s: %w", account, err)
	}
	return kept, nil
}

func (s *Session) revokeAccess(ctx context.Context, account string, role plan.Role,
	database string) (kept bool, err error) {
	refusesOrphans := s.server.refusesOrphans.Load()
	var was shutAccount
	if refusesOrphans {
		was, err = s.dropOrLock(ctx, account)
	} else {
		was, err = s.lockAccount(ctx, account)
	}
	if err == nil {
		err = s.endSessions(ctx, account)
	}
	switch {
	case err != nil:
		return false, err
	case was == dropped:
		return false, nil
	case was == locked && refusesOrphans:
		return true, nil
	}
	defines, err := s.defines(ctx, account, database)
	switch {
	case was == missing:
		if err != nil || !defines {
			return false, err
		}
		return s.makeAgain(ctx, account, role, database)
	case defines || Refused(err):
		return true, nil
	case err != nil:
		return false, err
	}
	err = s.dropUser(ctx, account)
	if hasNumber(err, errIsDefiner) {
		return true, nil
	}
	return false, err
}

// shutAccount is what an account is that lets nobody in any more.
type shutAccount int

const (
	locked shutAccount = iota
	dropped
	missing
)

// dropOrLock shuts an account by one statement, unless the server refuses to drop the account as it defines something.
// MySQL finds that out in its dictionary, by the name of the definer, whatever there is beside, and however long.
func (s *Session) dropOrLock(ctx context.Context, account string) (shutAccount, error) {
	err := s.insist(ctx, account, func() error { return s.dropUser(ctx, account) })
	if hasNumber(err, errIsDefiner) {
		return s.lockAccount(ctx, account)
	}
	return dropped, err
}

// lockAccount locks an account and takes its password from it.
func (s *Session) lockAccount(ctx context.Context, account string) (shutAccount, error) {
	err := s.insist(ctx, account, func() error { return s.identifyLocked(ctx, "ALTER USER", account) })
	if hasNumber(err, errCannotUser) {
		return missing, nil
	}
	return locked, err
}

func (s *Session) identifyLocked(ctx context.Context, verb, account string) error {
	return withholdMessage(s.execAccount(ctx, verb+" ?@'%' "+s.dialect.identified+" ACCOUNT LOCK", account,
		s.dialect.hash(rand.Text())))
}

// insist runs a statement that shuts an account. If the server cannot carry it out, it may be the account's own
// sessions that hold what it needs, files for example: they are ended, and it is tried once more.
func (s *Session) insist(ctx context.Context, account string, statement func() error) error {
	err := statement()
	if !Refused(err) || hasNumber(err, errIsDefiner) || hasNumber(err, errCannotUser) {
		return err
	}
	if _, killing := s.killSessions(ctx, account); killing != nil {
		return errors.Join(err, killing)
	}
	return statement()
}

// Refused reports whether the server has answered, with an error: the connection is in order.
func Refused(err error) bool {
	_, answered := errors.AsType[*mysql.MySQLError](err)
	return answered
}

// makeAgain makes an account that was dropped although it defines something, locked. MySQL refuses that to whom it
// refuses to drop definers, so that there it was not the broker who dropped it: then nothing is kept. Its events do not
// run any more.
func (s *Session) makeAgain(ctx context.Context, account string, role plan.Role,
	database string) (kept bool, err error) {
	err = s.identifyLocked(ctx, "CREATE USER", account)
	if hasNumber(err, errIsDefiner) {
		return false, nil
	}
	if err == nil {
		err = s.execAccount(ctx, s.dialect.grantStatement(role, false, database), account)
	}
	return true, err
}

// ShutAccount lets nobody in to an account any more, drops it if it may be dropped at once, and kills its sessions.
// Those that may come of pending logins are left to EndLogins, so that one can wait for the logins to many accounts at
// the same time. It is for accounts whose database goes too: DropShutAccount afterwards.
func (s *Session) ShutAccount(ctx context.Context, account string) (pending PendingLogins, err error) {
	if _, err = s.dropOrLock(ctx, account); err == nil {
		pending, err = s.killSessions(ctx, account)
	}
	if err != nil {
		return pending, fmt.Errorf("shut account %s: %w", account, err)
	}
	return pending, nil
}

// DropShutAccount drops an account that ShutAccount has shut, whatever it defined: its database is gone.
func (s *Session) DropShutAccount(ctx context.Context, account string) error {
	if err := s.dropUser(ctx, account); err != nil {
		return fmt.Errorf("drop account %s: %w", account, err)
	}
	return nil
}

// DropAccount ends an account's access at once and drops it, whatever it defines: drop the database first. A missing
// account is fine.
func (s *Session) DropAccount(ctx context.Context, account string) error {
	err := s.insist(ctx, account, func() error { return s.dropUser(ctx, account) })
	if err == nil {
		err = s.endSessions(ctx, account)
	}
	if err != nil {
		return fmt.Errorf("drop account %s: %w", account, err)
	}
	return nil
}

// endSessions kills the sessions of an account that lets nobody in any more: neither a lock nor DROP USER ends them. A
// login that was pending at that moment can still succeed, so that they are killed again after such logins.
func (s *Session) endSessions(ctx context.Context, account string) error {
	pending, err := s.killSessions(ctx, account)
	if err != nil {
		return err
	}
	return s.EndLogins(ctx, pending, account)
}

// killSessions kills the sessions of an account, and tells which other connections may become some.
func (s *Session) killSessions(ctx context.Context, account string) (pending PendingLogins, err error) {
	found, err := s.connections(ctx, func(c connection) bool { return c.user == account || s.dialect.pending(c) })
	if err != nil {
		return pending, err
	}
	for _, c := range found {
		if c.user != account {
			pending.add(c.id, time.Now().Add(loginPatience-c.age))
		} else if err := s.kill(ctx, c.id); err != nil {
			return pending, err
		}
	}
	return pending, nil
}

func (s *Session) dropUser(ctx context.Context, account string) error {
	return s.execAccount(ctx, "DROP USER IF EXISTS ?@'%'", account)
}
