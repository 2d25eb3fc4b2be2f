package mysqladmin

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Revoke ends an account's access at once, kills its open sessions and drops it. It keeps an account that is the
// definer of a view, trigger, routine or event in the database, because those would break without it. It also keeps one
// if the server fails to find out what it defines. A kept account is locked, with a random password, until Drop.
// A missing account is no error.
//
// The account is shut, and its sessions are killed, before any query that depends on what a tenant has created. If such
// a query fails, the access has ended all the same.
// https://dev.mysql.com/doc/refman/8.4/en/stored-objects-security.html#stored-objects-security-orphan-objects
func (on Accounts) Revoke(ctx context.Context, account, database string) (kept bool, err error) {
	kept, err = on.revoke(ctx, account, database)
	return kept && err == nil, explain("revoke the access of account "+account, err)
}

func (on Accounts) revoke(ctx context.Context, account, database string) (kept bool, err error) {
	refusesOrphans := on.s.server.refusesOrphans.Load()
	var was shutAccount
	if refusesOrphans {
		was, err = on.dropOrLock(ctx, account)
	} else {
		was, err = on.lock(ctx, account)
	}
	if err == nil {
		err = on.endSessions(ctx, account)
	}
	switch {
	case err != nil:
		return false, err
	case was == gone:
		return false, nil
	case refusesOrphans:
		return true, nil
	}
	defines, err := on.defines(ctx, account, database)
	switch {
	case defines || Refused(err):
		return true, nil
	case err != nil:
		return false, err
	}
	err = on.dropUser(ctx, account)
	if hasNumber(err, errIsDefiner) {
		return true, nil
	}
	return false, err
}

// shutAccount is the state of an account that nobody can log in to any more.
type shutAccount int

const (
	locked shutAccount = iota
	gone
)

// dropOrLock drops an account. If the server refuses that, because the account is a definer, it locks the account.
// MySQL finds a definer by name in its dictionary, regardless of how many objects there are and how long their texts
// are.
func (on Accounts) dropOrLock(ctx context.Context, account string) (shutAccount, error) {
	err := on.insist(ctx, account, func() error { return on.dropUser(ctx, account) })
	if hasNumber(err, errIsDefiner) {
		return on.lock(ctx, account)
	}
	return gone, err
}

// lock locks an account and replaces its password with a random one.
func (on Accounts) lock(ctx context.Context, account string) (shutAccount, error) {
	err := on.insist(ctx, account, func() error {
		return withholdMessage(on.s.execAccount(ctx, "ALTER USER ?@'%' "+on.s.dialect.identified+" ACCOUNT LOCK", account,
			on.s.dialect.hash(rand.Text())))
	})
	if hasNumber(err, errCannotUser) {
		return gone, nil
	}
	return locked, err
}

// insist runs a statement that shuts an account. If it fails, the account's own sessions may hold what the server
// needs, open files for example. insist then kills them and tries once more.
func (on Accounts) insist(ctx context.Context, account string, statement func() error) error {
	err := statement()
	if !Refused(err) || hasNumber(err, errIsDefiner, errCannotUser) {
		return err
	}
	if _, killing := on.killSessions(ctx, account); killing != nil {
		return errors.Join(err, killing)
	}
	return statement()
}

// Shut drops an account, or locks it if the server refuses to drop it, and kills its sessions. Pending logins
// can still become sessions. The caller passes them to EndLogins, which can wait for the logins to many accounts at the
// same time. Shut is for accounts whose database is dropped too: call DropShut afterwards.
func (on Accounts) Shut(ctx context.Context, account string) (pending PendingLogins, err error) {
	if _, err = on.dropOrLock(ctx, account); err == nil {
		pending, err = on.killSessions(ctx, account)
	}
	return pending, explain("shut account "+account, err)
}

// DropShut drops an account that Shut has shut. It does not check what the account defined, because its
// database was dropped.
func (on Accounts) DropShut(ctx context.Context, account string) error {
	return explain("drop account "+account, on.dropUser(ctx, account))
}

// Drop ends an account's access at once and drops it. It does not check what the account defines: drop the
// database first. A missing account is no error.
func (on Accounts) Drop(ctx context.Context, account string) error {
	err := on.insist(ctx, account, func() error { return on.dropUser(ctx, account) })
	if err == nil {
		err = on.endSessions(ctx, account)
	}
	return explain("drop account "+account, err)
}

// endSessions kills the sessions of an account that is shut: neither a lock nor DROP USER ends them. A login that is
// pending at that moment can still succeed, so endSessions waits for such logins and kills their sessions too.
func (on Accounts) endSessions(ctx context.Context, account string) error {
	pending, err := on.killSessions(ctx, account)
	if err != nil {
		return err
	}
	return on.EndLogins(ctx, pending, account)
}

// killSessions kills the sessions of an account, and returns the other connections that may become sessions of it.
func (on Accounts) killSessions(ctx context.Context, account string) (pending PendingLogins, err error) {
	found, err := on.s.connections(ctx, func(c connection) bool { return c.user == account || on.s.dialect.pending(c) })
	if err != nil {
		return nil, err
	}
	pending = PendingLogins{}
	for _, c := range found {
		if c.user != account {
			pending[c.id] = time.Now().Add(loginPatience - c.age)
		} else if err := on.s.kill(ctx, c.id); err != nil {
			return pending, err
		}
	}
	return pending, nil
}

// dropUser changes nothing if there is no such account, even on a full disk.
func (on Accounts) dropUser(ctx context.Context, account string) error {
	if on.s.server.config.room() != nil {
		there, err := on.s.exists(ctx, "SELECT EXISTS (SELECT * FROM mysql.user WHERE user = ?)", account)
		if err != nil || !there {
			return err
		}
	}
	return on.s.execAccount(ctx, "DROP USER IF EXISTS ?@'%'", account)
}

const (
	// loginPatience is how long a pending login may take from its start. A login is a few round trips; a client that is
	// starting up or far away may need a second or two. Servers allow connect_timeout, 10 s, for each packet, so a client
	// that holds its packets back could delay the broker for far longer.
	loginPatience = 3 * time.Second

	loginPollInterval = 20 * time.Millisecond
)

// PendingLogins are connections that were logging in, to any account, right after some accounts were shut. MySQL reads
// the account when the client names it, and accepts the login when the client has proved its password, even if the
// account was locked or dropped in between. Its process list does not show which account a client has named. MariaDB
// shows the name before it reads the account, so it has no pending logins: a login to an account is listed, and killed,
// like a session of it.
//
// MySQL: server_mpvio_update_thd and find_mpvio_user in sql/auth/sql_authentication.cc.
// MariaDB: parse_client_handshake_packet and parse_com_change_user_packet in sql/sql_acl.cc.
//
// The times say when the login of a connection has taken too long.
type PendingLogins map[int64]time.Time

// Add adds the logins of another set.
func (p PendingLogins) Add(other PendingLogins) {
	for id, until := range other {
		if _, known := p[id]; !known {
			p[id] = until
		}
	}
}

// EndLogins waits until each pending login has failed or has become a session, and kills the sessions of the accounts.
// It also kills logins that take longer than loginPatience. The pending logins must have been listed after the accounts
// were shut.
func (on Accounts) EndLogins(ctx context.Context, pending PendingLogins, accounts ...string) error {
	if len(pending) == 0 {
		return nil
	}
	poll := time.NewTicker(loginPollInterval)
	defer poll.Stop()
	for {
		found, err := on.s.connections(ctx, func(c connection) bool {
			_, seen := pending[c.id]
			return slices.Contains(accounts, c.user) || seen && on.s.dialect.pending(c)
		})
		if err != nil {
			return err
		}
		still := 0
		for _, c := range found {
			if !slices.Contains(accounts, c.user) && time.Now().Before(pending[c.id]) {
				still++
			} else if err := on.s.kill(ctx, c.id); err != nil {
				return err
			}
		}
		if still == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for pending logins: %w", context.Cause(ctx))
		case <-poll.C:
		}
	}
}

// pendingOnMySQL reports whether the connection may become a session of another account than the listed one: it is
// logging in, or runs COM_CHANGE_USER.
func pendingOnMySQL(c connection) bool {
	return c.user == "unauthenticated user" && c.command != commandKilled || c.command == "Change user"
}
