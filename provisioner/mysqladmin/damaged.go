package mysqladmin

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/go-sql-driver/mysql"
)

// ErrNoRoom says that the disk of a server is too full to change accounts: see Config.Room.
var ErrNoRoom = errors.New("there is no disk space to change accounts")

// room returns ErrNoRoom if no account may be changed.
func (s *Server) room() error {
	if s.config.Room == nil {
		return nil
	}
	if err := s.config.Room(); err != nil {
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
	return ok && (slices.Contains(damagedNumbers, refused.Number) || damagedText.MatchString(refused.Message))
}

// RepairAccounts is the statement that repairs the tables of accounts of MariaDB. Those of MySQL need no repair.
const RepairAccounts = "REPAIR NO_WRITE_TO_BINLOG TABLE mysql.global_priv, mysql.db, mysql.tables_priv, " +
	"mysql.columns_priv, mysql.procs_priv, mysql.proxies_priv, mysql.roles_mapping"

// repairAccounts runs RepairAccounts.
func (s *Session) repairAccounts(ctx context.Context) error {
	if err := s.alive(); err != nil {
		return err
	}
	rows, err := s.conn.QueryContext(ctx, RepairAccounts)
	if err != nil {
		return fmt.Errorf("repair the tables of accounts: %w", err)
	}
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	var failed []error
	for rows.Next() {
		var table, operation, kind, text string
		if err := rows.Scan(&table, &operation, &kind, &text); err != nil {
			return err
		}
		if kind == "error" || kind == "Error" {
			failed = append(failed, fmt.Errorf("repair %s: %s", table, text))
		}
	}
	return errors.Join(append(failed, rows.Err())...)
}
