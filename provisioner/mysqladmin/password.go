package mysqladmin

import (
	"context"
	"fmt"
)

// ChangePassword changes only the password of an account, which must exist. Open sessions stay.
// Errors do not quote the server's message, which can repeat the password.
func (s *Session) ChangePassword(ctx context.Context, account, password string) error {
	err := withholdMessage(s.execAccount(ctx, "ALTER USER ?@'%' "+s.dialect.identified, account,
		s.dialect.hash(password)))
	if err != nil {
		return fmt.Errorf("change the password of account %s: %w", account, err)
	}
	return nil
}

// ReplacePassword changes the password of an account, which must exist, and ends the sessions of everyone who had the
// old one.
func (s *Session) ReplacePassword(ctx context.Context, account, password string) error {
	if err := s.ChangePassword(ctx, account, password); err != nil {
		return err
	}
	if err := s.endSessions(ctx, account); err != nil {
		return fmt.Errorf("end the sessions of account %s: %w", account, err)
	}
	return nil
}

// errAccessDenied is ER_ACCESS_DENIED_ERROR of either flavour.
const errAccessDenied = 1045

// AccessDenied reports whether the server refused a login, most likely because of the password.
func AccessDenied(err error) bool { return hasNumber(err, errAccessDenied) }
