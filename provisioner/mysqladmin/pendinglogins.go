package mysqladmin

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	// loginPatience is how long a pending login may take, from its beginning: it is a few round trips, and for a client
	// that starts up, or is far away, a second or two. Servers allow connect_timeout, 10 s, for each packet, so that
	// clients which hold theirs back would hold up the broker.
	loginPatience = 3 * time.Second

	loginPollInterval = 20 * time.Millisecond
)

// PendingLogins are connections on which somebody was logging in, to whatever account, right after some accounts were
// shut. MySQL reads an account when the client has named it, and lets it in when the client has proved its password,
// even if the account was locked or dropped between the two; and it does not tell which account a client has named.
// MariaDB tells that before it reads the account, so that there no login is pending: those to an account are listed,
// and killed, as its sessions are.
//
// MySQL: server_mpvio_update_thd and find_mpvio_user in sql/auth/sql_authentication.cc.
// MariaDB: parse_client_handshake_packet and parse_com_change_user_packet in sql/sql_acl.cc.
type PendingLogins struct {
	until map[int64]time.Time // by connection: when it has had its time
}

// Add takes over the logins of another set.
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

// Any tells whether there are any.
func (p *PendingLogins) Any() bool { return len(p.until) > 0 }

// EndLogins returns when the pending logins, which were seen after the accounts were shut, have failed, or have become
// sessions, of which those of the accounts are killed. A login that takes longer than loginPatience is killed.
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

// pendingOnMySQL tells whether the connection may be about to become a session of another account than it is listed
// with: at its beginning, or by COM_CHANGE_USER.
func pendingOnMySQL(c connection) bool {
	return c.user == "unauthenticated user" || c.command == "Change user"
}
