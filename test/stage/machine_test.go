//go:build faults

package stage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/test/audit"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// machine is a running mysqld, which the played launcher hands out again and again.
type machine struct {
	servers.MySQL
	admin    *sql.DB
	start    map[string]int64 // global variables as they were at the start
	borrower string           // the id of the dedicated server that it is; "" if it is free
}

// changing are the global variables that are put back before a machine is handed out again.
var changing = []string{"max_connections", "innodb_buffer_pool_size"}

// startMachine starts a machine for dedicated servers. Its one account is one that audits expect on shared servers.
func startMachine(t *testing.T, flavour string) *machine {
	m := asMachine(t, testdrive.Private(t, flavour))
	former := "'" + m.User + "'@'%'"
	require.NoError(t, m.exec(t.Context(), "GRANT ALL PRIVILEGES ON *.* TO '"+m.BrokerUser+"'@'%' WITH GRANT OPTION"))
	m.User, m.Password = m.BrokerUser, m.BrokerPassword
	m.admin.Close()
	m = asMachine(t, m.MySQL)
	require.NoError(t, m.exec(t.Context(), "DROP USER "+former))
	return m
}

func asMachine(t *testing.T, server servers.MySQL) *machine {
	m := &machine{MySQL: server, admin: server.Admin(t), start: map[string]int64{}}
	m.admin.SetMaxOpenConns(2)
	for _, name := range changing {
		var value int64
		require.NoError(t, m.admin.QueryRow("SELECT @@GLOBAL."+name).Scan(&value))
		m.start[name] = value
	}
	return m
}

// endpoint is that of the server that the machine plays.
func (m *machine) endpoint() launcher.Endpoint {
	return launcher.Endpoint{Host: m.Host, Port: m.Port, CACertificate: []byte(m.CA)}
}

// reset removes all that a server held.
func (m *machine) reset(ctx context.Context) error {
	databases, err := audit.Column(ctx, m.admin, `SELECT schema_name FROM information_schema.schemata
		WHERE schema_name NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')`)
	if err != nil {
		return err
	}
	accounts, err := m.accounts(ctx, "TRUE")
	if err != nil {
		return err
	}
	// Sessions end first: they may hold locks on tables.
	var statements []string
	for _, account := range accounts {
		statements = append(statements, "DROP USER "+account)
	}
	for _, name := range databases {
		statements = append(statements, "DROP DATABASE `"+name+"`")
	}
	for _, name := range changing {
		statements = append(statements, fmt.Sprintf("SET GLOBAL %s = %d", name, m.start[name]))
	}
	return errors.Join(m.endSessions(ctx), m.exec(ctx, statements...), m.endSessions(ctx))
}

// resize gives the machine memory. Twice as much as the smallest servers have doubles its buffer pool.
func (m *machine) resize(ctx context.Context, memoryMB int) error {
	const name, smallestMB = "innodb_buffer_pool_size", 256
	return m.exec(ctx, fmt.Sprintf("SET GLOBAL %s = %d", name, m.start[name]*int64(max(1, memoryMB/smallestMB))))
}

// lock locks those accounts that are not, and ends all sessions, as if the server did not run. It returns the accounts.
func (m *machine) lock(ctx context.Context) ([]string, error) {
	free := "account_locked = 'N'"
	if m.Flavour == "mariadb" {
		free = "NOT COALESCE(JSON_VALUE(priv, '$.account_locked'), FALSE)"
	}
	accounts, err := m.accounts(ctx, free)
	if err != nil {
		return nil, err
	}
	return accounts, errors.Join(m.alter(ctx, accounts, "LOCK"), m.endSessions(ctx))
}

// alter locks accounts, or unlocks them.
func (m *machine) alter(ctx context.Context, accounts []string, to string) error {
	if len(accounts) == 0 {
		return nil
	}
	return m.exec(ctx, "ALTER USER "+strings.Join(accounts, ", ")+" ACCOUNT "+to)
}

// accounts lists the accounts of tenants and of the broker, quoted.
func (m *machine) accounts(ctx context.Context, condition string) ([]string, error) {
	table := "mysql.user"
	if m.Flavour == "mariadb" {
		table = "mysql.global_priv"
	}
	return audit.Column(ctx, m.admin, `SELECT CONCAT('''', user, '''@''', host, '''') FROM `+table+`
		WHERE user NOT IN ('mysql.sys', 'mysql.session', 'mysql.infoschema', 'mariadb.sys', 'PUBLIC', '') AND user <> ?
		AND `+condition, m.User)
}

// endSessions ends all sessions but those of the stage.
func (m *machine) endSessions(ctx context.Context) error {
	sessions, err := m.sessions(ctx, "id")
	if err != nil {
		return err
	}
	for _, id := range sessions {
		err := m.exec(ctx, "KILL "+id)
		if refused, ok := errors.AsType[*mysql.MySQLError](err); err != nil && !(ok && refused.Number == noSuchThread) {
			return err
		}
	}
	return nil
}

// sessions lists a value for each session that is not of the stage.
func (m *machine) sessions(ctx context.Context, value string) ([]string, error) {
	return audit.Column(ctx, m.admin, `SELECT `+value+` FROM information_schema.processlist
		WHERE user NOT IN ('system user', 'event_scheduler') AND user <> ?`, m.User)
}

const noSuchThread = 1094 // ER_NO_SUCH_THREAD: it has just ended

func (m *machine) exec(ctx context.Context, statements ...string) error {
	for _, statement := range statements {
		if _, err := m.admin.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(strings.Fields(statement)[:2], " "), err)
		}
	}
	return nil
}
