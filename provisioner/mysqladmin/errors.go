package mysqladmin

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"

	"github.com/go-sql-driver/mysql"
)

// Numbers of server errors that the broker handles.
// MySQL: https://dev.mysql.com/doc/mysql-errors/8.4/en/server-error-reference.html
// MariaDB: https://mariadb.com/docs/server/reference/error-codes
const (
	errTooManyConnections = 1040
	errAccessDenied       = 1045
	errNoSuchDatabase     = 1049
	errNoSuchThread       = 1094
	errUnknownCharset     = 1115
	errNoSuchAccount      = 1133 // of GRANT on MariaDB
	errNoSuchGrant        = 1141 // of REVOKE, also where there is no such account
	errNoSuchTable        = 1146
	errUnknownVariable    = 1193
	errLockWaitTimeout    = 1205
	errSpecificDenied     = 1227
	errCollationMismatch  = 1253
	errUnknownCollation   = 1273
	errXAResource         = 1401 // of XA RECOVER without the privilege for it
	errCannotUser         = 1396 // CREATE USER of one that exists, ALTER USER of one that does not
	errGrantNoSuchAccount = 1410 // MySQL only
	errOfflineMode        = 3032 // MySQL only
	errUnknownPrivilege   = 3929 // MySQL only
	errStatementTimeout   = 1969 // MariaDB only
	errQueryTimeout       = 3024 // MySQL only
	errDatabaseReadOnly   = 3989 // MySQL only
	errUnknownTable       = 1109 // in information_schema
	errIsDefiner          = 4006 // of DROP USER, and of CREATE USER even of one that exists; MySQL only
)

// outages are server errors that say that a statement cannot be executed now, but may be later.
var outages = []uint16{
	1047, // a Galera node without a majority
	3100, // Group Replication: the member could not commit
	errTooManyConnections,
	1053,               // server shutdown in progress
	errLockWaitTimeout, // for example during a backup
	1317,               // query interrupted
	1927,               // connection killed, MariaDB
	3169,               // session killed, MySQL
	4031,               // disconnected by the server for inactivity, MySQL
}

// Unreachable reports whether the server could not be reached, went away, or was too busy: the same call may succeed
// later, or on another server. A statement whose connection broke may have taken effect.
func Unreachable(err error) bool {
	if incomplete(err) {
		return true
	}
	if Refused(err) {
		return hasNumber(err, outages...)
	}
	return lost(err) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, sql.ErrConnDone) ||
		errors.Is(err, errLockHeld) || errors.Is(err, errLags)
}

// lost reports whether a connection could not be opened or broke, or whether a deadline for it is over.
func lost(err error) bool {
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// refusals are the errors of a server that does not accept the broker's connection, or ends it.
var refusals = []uint16{
	errTooManyConnections,
	1041, // out of memory
	1053, // server shutdown in progress
	1077, // normal shutdown
	1047, // a Galera node without a majority
	1129, // host blocked because of connection errors
	1135, // cannot create a thread
	1203, // the account has max_user_connections
	1226, // the same, by a limit of the account
	1927, // connection killed, MariaDB; also when it shuts down
	3100, // Group Replication: the member could not commit
	3101, // the same, because of a conflict, or because the member has left
	errOfflineMode,
	3168, // the server is not available, MySQL
	3169, // session killed, MySQL
	4031, // disconnected by the server, MySQL
}

// diskFull are the numbers of errors of a server that has no room for rows, which may be that of a table.
// https://dev.mysql.com/doc/mysql-errors/8.4/en/server-error-reference.html
var diskFull = []uint16{1021, 1114, 3675}

// noSpace matches other errors of a full disk: ENOSPC is error 28.
var noSpace = regexp.MustCompile(`(?i)no space left on device|(errno|errcode|error)( number)?:? "?28\b`)

// DiskFull reports whether an error of a server says that its disk is full.
func DiskFull(err error) bool {
	refused, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && (hasNumber(err, diskFull...) || noSpace.MatchString(refused.Message)) || errors.Is(err, ErrNoRoom)
}

// CannotReach reports whether an error only says that the server cannot be reached, went away or accepts no connections
// now. A server that refuses the password or a statement was reached, and so was one on which a wait for a lock timed
// out. A caller must first check whether its own context has ended.
func CannotReach(err error) bool {
	if Refused(err) {
		return hasNumber(err, refusals...)
	}
	return errors.Is(err, ErrSilent) || incomplete(err) || lost(err)
}

// incomplete reports whether an error says that a cluster has no primary now, or lacks a node.
func incomplete(err error) bool {
	_, missing := errors.AsType[*nodeMissingError](err)
	_, none := errors.AsType[*noPrimaryError](err)
	return missing || none || errors.Is(err, errReadOnlyNode)
}

// hasNumber reports whether an error is one of a server that has one of these numbers.
func hasNumber(err error, numbers ...uint16) bool {
	refused, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && slices.Contains(numbers, refused.Number)
}

// Refused reports whether the error is a response of the server, so that the connection still works.
func Refused(err error) bool {
	_, answered := errors.AsType[*mysql.MySQLError](err)
	return answered
}

// explain adds what was being done to an error.
func explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// withholdMessage removes the server's message from the error of a statement with a password, because the message can
// quote the statement.
func withholdMessage(err error) error {
	refused, ok := errors.AsType[*mysql.MySQLError](err)
	if !ok {
		return err
	}
	return &mysql.MySQLError{Number: refused.Number, SQLState: refused.SQLState, Message: "message withheld"}
}

// NoDatabase reports whether a server refused because it has no such database.
func NoDatabase(err error) bool { return hasNumber(err, errNoSuchDatabase) }
