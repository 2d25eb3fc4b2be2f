package transfer

import (
	"context"
	"database/sql"
	"strings"
)

// writeSession are the settings of the connections that write. Without NO_AUTO_VALUE_ON_ZERO, a 0 would become a new
// number. Dates may be as invalid as they are in the source, and on MariaDB, where sessions can turn checks off, so may
// rows. The strings have their character set because the session can have one that is not of bytes, such as ucs2. A
// TIMESTAMP NOT NULL has no other default than the one that is printed, whatever the server's setting.
const writeSession = `SET SESSION character_set_client = utf8mb4, character_set_results = NULL,
	collation_connection = utf8mb4_bin, ` + utcSession + `, foreign_key_checks = 0, lock_wait_timeout = 5,
	timestamp = DEFAULT,
	sql_mode = _utf8mb4'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION'
	/*M! , check_constraint_checks = 0 */
	/*!80000 , explicit_defaults_for_timestamp = 1 */ /*M!100802 , explicit_defaults_for_timestamp = 1 */` + withHidden

// withHidden has MySQL print primary keys that it has generated, even where they are to be hidden.
const withHidden = ` /*!80030 , show_gipk_in_create_table_and_information_schema = ON */`

// looseSession allows definitions that a strict server refuses, and values that only look wrong, such as the empty
// value of an ENUM. The comparison finds values that the server changes. On MariaDB, where anybody may create tables
// without InnoDB's strict mode, it also allows rows that can become too long for a page, and options that do not fit;
// on MySQL, foreign keys to keys that are not unique, which anybody may create.
const looseSession = `SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION'
	/*M! , innodb_strict_mode = 0 */ /*!80400 , restrict_fk_on_non_standard_key = OFF */`

const strictSession = `SET SESSION
	sql_mode = 'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION'`

// oracleSession lets MariaDB before 11.4 drop packages.
const oracleSession = "SET SESSION sql_mode = 'ORACLE'"

// connect opens a connection to the target, and runs more statements on it. Close it with discard.
func (t Target) connect(ctx context.Context, more ...string) (*sql.Conn, error) {
	const isolation = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
	return open(ctx, t.DB, append([]string{writeSession, isolation}, more...)...)
}

// open opens a connection and runs statements on it. Close it with discard.
func open(ctx context.Context, pool *sql.DB, statements ...string) (*sql.Conn, error) {
	conn, err := pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	for _, statement := range statements {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			discard(conn)
			return nil, err
		}
	}
	return conn, nil
}

// target is a Target while alive returns no error.
type target struct {
	Target
	alive func() error
}

// exec changes the target.
func (to target) exec(ctx context.Context, conn *sql.Conn, statement string) error {
	if err := to.alive(); err != nil {
		return err
	}
	_, err := conn.ExecContext(ctx, statement)
	return err
}

// DropPrograms drops the views, routines, triggers and events of the target.
func DropPrograms(ctx context.Context, to Target, alive func() error) error {
	conn, err := to.connect(ctx)
	if err != nil {
		return err
	}
	defer discard(conn)
	return target{to, alive}.dropPrograms(ctx, conn)
}

func (to target) dropPrograms(ctx context.Context, conn *sql.Conn) error {
	for _, l := range listPrograms {
		old, err := names(ctx, conn, l.query)
		if err != nil {
			return err
		}
		for _, p := range old {
			if err := to.dropProgram(ctx, conn, p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (to target) dropProgram(ctx context.Context, conn *sql.Conn, p program) error {
	statements := []string{"DROP " + p.Kind + " IF EXISTS " + quoteName(p.Name)}
	if strings.HasPrefix(p.Kind, "PACKAGE") {
		statements = []string{oracleSession, statements[0], writeSession}
	}
	for _, statement := range statements {
		if err := to.exec(ctx, conn, statement); err != nil {
			return err
		}
	}
	return nil
}
