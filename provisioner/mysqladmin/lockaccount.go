package mysqladmin

import (
	"context"
	"fmt"
)

// LockAccount lets nobody in to an account any more and ends its sessions. What it may do, and its password, stay as
// they are. A missing account is fine.
func (s *Session) LockAccount(ctx context.Context, account string) error {
	err := s.execAccount(ctx, "ALTER USER IF EXISTS ?@'%' ACCOUNT LOCK", account)
	if err == nil {
		err = s.endSessions(ctx, account)
	}
	if err != nil {
		return fmt.Errorf("lock account %s: %w", account, err)
	}
	return nil
}
