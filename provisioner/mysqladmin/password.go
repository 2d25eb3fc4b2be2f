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

// errAccessDenied is ER_ACCESS_DENIED_ERROR of either flavour.
const errAccessDenied = 1045

// AccessDenied reports whether the server refused a login, most likely because of the password.
func AccessDenied(err error) bool { return hasNumber(err, errAccessDenied) }
