package mysqladmin

import (
	"context"
	"fmt"
	"slices"
	"time"
)

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
type PendingLogins struct {
	until map[int64]time.Time // by connection: when its login has taken too long
}

// Add adds the logins of another set.
func (p *PendingLogins) Add(other PendingLogins) {
	for id, until := range other.until {
		if _, known := p.until[id]; !known {
			p.add(id, until)
		}
	}
}

func (p *PendingLogins) add(id int64, until time.Time) {
	if p.until == nil {
		p.until = map[int64]time.Time{}
	}
	p.until[id] = until
}

// Any reports whether there are any pending logins.
func (p *PendingLogins) Any() bool { return len(p.until) > 0 }

// EndLogins waits until each pending login has failed or has become a session, and kills the sessions of the accounts.
// It also kills logins that take longer than loginPatience. The pending logins must have been listed after the accounts
// were shut.
func (s *Session) EndLogins(ctx context.Context, pending PendingLogins, accounts ...string) error {
	if !pending.Any() {
		return nil
	}
	poll := time.NewTicker(loginPollInterval)
	defer poll.Stop()
	for {
		found, err := s.connections(ctx, func(c connection) bool {
			_, seen := pending.until[c.id]
			return slices.Contains(accounts, c.user) || seen && s.dialect.pending(c)
		})
		if err != nil {
			return err
		}
		still := 0
		for _, c := range found {
			if !slices.Contains(accounts, c.user) && time.Now().Before(pending.until[c.id]) {
				still++
			} else if err := s.kill(ctx, c.id); err != nil {
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
