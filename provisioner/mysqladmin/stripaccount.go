package mysqladmin

import (
	"context"
	"fmt"

	"mysql-broker/provisioner/plan"
)

// StripAccount revokes all privileges of an account, which must exist. Views, routines, triggers and events that run in
// its name fail from then on.
func (s *Session) StripAccount(ctx context.Context, account string) error {
	if err := s.execAccount(ctx, "REVOKE ALL PRIVILEGES, GRANT OPTION FROM ?@'%'", account); err != nil {
		return fmt.Errorf("revoke the privileges of account %s: %w", account, err)
	}
	return nil
}

// GrantRole gives an account, which must exist, the privileges of a role, and EVENT if it may have that. It stays
// locked if it is.
func (s *Session) GrantRole(ctx context.Context, account string, role plan.Role, events bool, database string) error {
	if err := s.execAccount(ctx, s.dialect.grantStatement(role, events, database), account); err != nil {
		return fmt.Errorf("grant the privileges of account %s: %w", account, err)
	}
	return nil
}

// GrantFrozen is GrantRole for an account that is to have the privileges that Freeze leaves.
func (s *Session) GrantFrozen(ctx context.Context, account string, role plan.Role, database string) error {
	list := privileges[plan.ReadOnly]
	if role != plan.ReadOnly {
		list += ", EXECUTE"
	}
	if err := s.execAccount(ctx, grant(list, database), account); err != nil {
		return fmt.Errorf("grant the privileges of the frozen account %s: %w", account, err)
	}
	return nil
}
