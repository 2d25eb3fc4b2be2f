package mysqladmin

import (
	"context"
	"fmt"
)

// LockAccount locks an account and kills its sessions. Its privileges and password stay as they are. A missing account
// is no error.
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
