package mysqladmin

import (
	"context"
	"fmt"

	"mysql-broker/provisioner/plan"
)

// Account is the MySQL user of one binding. It may log in from any host.
type Account struct {
	Name           string // at most 32 characters
	Password       string
	Database       string
	Role           plan.Role
	MaxConnections int  // at the same time; 0 for the server's own limit
	RequireTLS     bool // logins without TLS are refused
	Events         bool // it may create events, unless its role is ReadOnly
	Restricted     bool // it has no write privileges, as after RemoveWritePrivileges
	LockTables     bool // in addition to what its role has
	Secondary      bool // it may log in to members of a group that are not the primary
	OwnServer      bool // no other tenant uses the server: an Admin may read every routine
}

// CreateAccount creates an account, or gives an existing one exactly this password, these limits and this role.
// Errors do not quote the server's message, which can repeat the password.
func (s *Session) CreateAccount(ctx context.Context, a Account) error {
	if err := s.createAccount(ctx, a); err != nil {
		return fmt.Errorf("create account %s: %w", a.Name, err)
	}
	s.spread(ctx)
	return nil
}

func (s *Session) createAccount(ctx context.Context, a Account) error {
	if _, known := privileges[a.Role]; !known {
		return fmt.Errorf("unknown role %q", a.Role)
	}
	err := s.identify(ctx, "CREATE USER", a)
	if hasNumber(err, errCannotUser) || hasNumber(err, errIsDefiner) { // it exists
		if err = s.identify(ctx, "ALTER USER", a); err == nil {
			err = s.execAccount(ctx, "REVOKE ALL PRIVILEGES, GRANT OPTION FROM ?@'%'", a.Name)
		}
	}
	if err != nil {
		return err
	}
	// Which privileges a role has in addition depends on the server's version, so write privileges are granted first and
	// then removed. Sessions that an existing account opened in between are killed.
	if err := s.execAccount(ctx, s.dialect.grantStatement(a.Role, a.Events, a.Database), a.Name); err != nil {
		return err
	}
	if a.LockTables {
		if err := s.execAccount(ctx, grant("LOCK TABLES", a.Database), a.Name); err != nil {
			return err
		}
	}
	// init_connect, which refuses others, does not apply to accounts with this privilege.
	if a.Secondary {
		if err := s.execAccount(ctx, "GRANT CONNECTION_ADMIN ON *.* TO ?@'%'", a.Name); err != nil {
			return err
		}
	}
	if a.Role == plan.Admin && a.OwnServer && s.dialect.readRoutines != "" {
		err := s.execAccount(ctx, "GRANT "+s.dialect.readRoutines+" ON *.* TO ?@'%'", a.Name)
		if err != nil && !hasNumber(err, errUnknownPrivilege) { // MySQL before 8.0.20
			return err
		}
	}
	if !a.Restricted {
		return nil
	}
	return s.RemoveWritePrivileges(ctx, a.Name, a.Role, a.Database)
}

// identify runs CREATE USER or ALTER USER with all attributes of an account except its privileges.
func (s *Session) identify(ctx context.Context, verb string, a Account) error {
	require := "NONE"
	if a.RequireTLS {
		require = "SSL"
	}
	statement := fmt.Sprintf("%s ?@'%%' %s REQUIRE %s WITH MAX_USER_CONNECTIONS %d PASSWORD EXPIRE NEVER ACCOUNT UNLOCK",
		verb, s.dialect.identified, require, a.MaxConnections)
	return withholdMessage(s.execAccount(ctx, statement, a.Name, s.dialect.hash(a.Password)))
}

// SetConnectionLimit changes how many connections an account may have at the same time. Open connections stay. A
// missing account is no error.
func (s *Session) SetConnectionLimit(ctx context.Context, account string, n int) error {
	if err := s.execAccount(ctx, "ALTER USER IF EXISTS ?@'%' WITH MAX_USER_CONNECTIONS ?", account, n); err != nil {
		return fmt.Errorf("set the connection limit of account %s: %w", account, err)
	}
	return nil
}
