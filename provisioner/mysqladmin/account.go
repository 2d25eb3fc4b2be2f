package mysqladmin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"

	"github.com/go-sql-driver/mysql"

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
	Restricted     bool // it has no write privileges, as after Writes.RemovePrivileges
	Locked         bool // nobody can log in
	LockTables     bool // in addition to what its role has
	OwnServer      bool // no other tenant uses the server: an Admin may read every routine
}

// Create creates an account, or gives an existing one exactly this password, these limits and this role.
// Errors do not quote the server's message, which can repeat the password.
func (on Accounts) Create(ctx context.Context, a Account) error {
	err := on.create(ctx, a)
	if err == nil {
		on.s.spread(ctx)
	}
	return explain("create account "+a.Name, err)
}

func (on Accounts) create(ctx context.Context, a Account) error {
	if _, known := privileges[a.Role]; !known {
		return fmt.Errorf("unknown role %q", a.Role)
	}
	err := on.identify(ctx, "CREATE USER", a)
	if hasNumber(err, errCannotUser, errIsDefiner) { // it exists
		if err = on.identify(ctx, "ALTER USER", a); err == nil {
			err = on.s.execAccount(ctx, "REVOKE ALL PRIVILEGES, GRANT OPTION FROM ?@'%'", a.Name)
		}
	}
	if err != nil {
		return err
	}
	// Which privileges a role has in addition depends on the server's version, so write privileges are granted first and
	// then removed. Sessions that an existing account opened in between are killed.
	if err := on.s.execAccount(ctx, on.s.dialect.grantStatement(a.Role, a.Events, a.Database), a.Name); err != nil {
		return err
	}
	if a.LockTables {
		if err := on.s.execAccount(ctx, grant("LOCK TABLES", a.Database), a.Name); err != nil {
			return err
		}
	}
	if a.Role == plan.Admin && a.OwnServer && on.s.dialect.readRoutines != "" {
		err := on.s.execAccount(ctx, "GRANT "+on.s.dialect.readRoutines+" ON *.* TO ?@'%'", a.Name)
		if err != nil && !hasNumber(err, errUnknownPrivilege) { // MySQL before 8.0.20
			return err
		}
	}
	if !a.Restricted {
		return nil
	}
	return on.s.Writes.RemovePrivileges(ctx, a.Name, a.Role, a.Database)
}

// identify runs CREATE USER or ALTER USER with all attributes of an account except its privileges.
func (on Accounts) identify(ctx context.Context, verb string, a Account) error {
	require := "NONE"
	if a.RequireTLS {
		require = "SSL"
	}
	lock := "UNLOCK"
	if a.Locked {
		lock = "LOCK"
	}
	statement := fmt.Sprintf("%s ?@'%%' %s REQUIRE %s WITH MAX_USER_CONNECTIONS %d PASSWORD EXPIRE NEVER ACCOUNT %s",
		verb, on.s.dialect.identified, require, a.MaxConnections, lock)
	return withholdMessage(on.s.execAccount(ctx, statement, a.Name, on.s.dialect.hash(a.Password)))
}

// SetConnectionLimit changes how many connections an account may have at the same time. Open connections stay. A
// missing account is no error.
func (on Accounts) SetConnectionLimit(ctx context.Context, account string, n int) error {
	err := on.s.execAccount(ctx, "ALTER USER IF EXISTS ?@'%' WITH MAX_USER_CONNECTIONS ?", account, n)
	return explain("set the connection limit of account "+account, err)
}

// ChangePassword changes only the password of an account, which must exist. Open sessions stay.
// Errors do not quote the server's message, which can repeat the password.
func (on Accounts) ChangePassword(ctx context.Context, account, password string) error {
	err := withholdMessage(on.s.execAccount(ctx, "ALTER USER ?@'%' "+on.s.dialect.identified, account,
		on.s.dialect.hash(password)))
	return explain("change the password of account "+account, err)
}

// ReplacePassword changes the password of an account, which must exist, and ends the sessions of everyone who had the
// old one.
func (on Accounts) ReplacePassword(ctx context.Context, account, password string) error {
	if err := on.ChangePassword(ctx, account, password); err != nil {
		return err
	}
	return explain("end the sessions of account "+account, on.endSessions(ctx, account))
}

// AccessDenied reports whether the server refused a login, most likely because of the password.
func AccessDenied(err error) bool { return hasNumber(err, errAccessDenied) }

// Lock locks an account and kills its sessions. Its privileges and password stay as they are. A missing account
// is no error.
func (on Accounts) Lock(ctx context.Context, account string) error {
	err := on.s.execAccount(ctx, "ALTER USER IF EXISTS ?@'%' ACCOUNT LOCK", account)
	if err == nil {
		err = on.endSessions(ctx, account)
	}
	return explain("lock account "+account, err)
}

// ErrNoRoom says that the disk of a server is too full to change accounts: see Config.Room.
var ErrNoRoom = errors.New("there is no disk space to change accounts")

// room returns ErrNoRoom if no account may be changed.
func (c Config) room() error {
	if c.Room == nil {
		return nil
	}
	if err := c.Room(); err != nil {
		return fmt.Errorf("%w: %w", ErrNoRoom, err)
	}
	return nil
}

// damagedNumbers are errors of a table of MyISAM or Aria, as MariaDB's tables of accounts are, that is damaged, for
// example because the disk was full. The first five are of the storage engine; 176 is a wrong checksum.
// https://mariadb.com/docs/server/reference/error-codes
var (
	damagedNumbers = []uint16{126, 127, 144, 145, 176, 1034, 1035, 1194, 1195}
	damagedText    = regexp.MustCompile(`\berror (126|127|144|145|176)\b`)
)

// Damaged reports whether an error of a server says that a table is damaged.
func Damaged(err error) bool {
	refused, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && (hasNumber(err, damagedNumbers...) || damagedText.MatchString(refused.Message))
}

// RepairAccounts is the statement that repairs the tables of accounts of MariaDB. Those of MySQL need no repair.
const RepairAccounts = "REPAIR NO_WRITE_TO_BINLOG TABLE mysql.global_priv, mysql.db, mysql.tables_priv, " +
	"mysql.columns_priv, mysql.procs_priv, mysql.proxies_priv, mysql.roles_mapping"

// repair runs RepairAccounts.
func (on Accounts) repair(ctx context.Context) error {
	if err := on.s.alive(); err != nil {
		return err
	}
	var failed []error
	err := EachRow(ctx, on.s.conn, RepairAccounts, func(rows *sql.Rows) error {
		var table, operation, kind, text string
		err := rows.Scan(&table, &operation, &kind, &text)
		if kind == "error" || kind == "Error" {
			failed = append(failed, fmt.Errorf("repair %s: %s", table, text))
		}
		return err
	})
	return errors.Join(append(failed, explain("repair the tables of accounts", err))...)
}
