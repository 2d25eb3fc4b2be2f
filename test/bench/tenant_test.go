package bench

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/audit"
	"mysql-broker/test/platform"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// tenant creates and deletes instances, one after the other: through the broker, or without it.
type tenant interface {
	provision() error // of a new instance
	bind() error
	unbind() error
	deprovision() error
}

// newTenants creates n tenants that use a new broker, and n that use none, on the same servers.
func newTenants(b *testing.B, s servers.MySQL, n int) (through, without []tenant) {
	env := environment(b, s)
	broker := testdrive.Start(b, env)
	for range n {
		through = append(through, newClient(b, broker, "shared-small", 0))
	}
	return through, newRawTenants(b, s, env["DATABASE_URL"], n)
}

// client is a platform of the broker.
type client struct {
	*platform.World
	plan    platform.Plan
	id      string // of its instance
	binding string
	last    testdrive.Response
}

func newClient(b *testing.B, broker *testdrive.Broker, plan string, pollEach time.Duration) *client {
	send := func(method, path string, body any) (testdrive.Response, error) {
		return broker.Send(method, path, body, nil)
	}
	return &client{World: &platform.World{Send: send, PollEach: pollEach}, plan: platform.NamedPlan(b, plan)}
}

// run carries an operation out, by one request and polls.
func (c *client) run(q platform.Request) (err error) {
	if c.last, err = c.Send(q.Method, q.Path, q.Body); err == nil {
		c.last, err = c.Conclude(q, c.last)
	}
	return err
}

func (c *client) provision() error {
	c.id = uuid.NewString()
	return c.run(c.plan.Provision(c.id))
}

func (c *client) bind() error {
	c.binding = uuid.NewString()
	return c.run(c.plan.Bind(c.id, c.binding))
}

// account is that of the binding, after bind.
func (c *client) account() (audit.Credentials, error) {
	return audit.ReadCredentials(c.last.Body["credentials"])
}

func (c *client) unbind() error      { return c.run(c.plan.Unbind(c.id, c.binding)) }
func (c *client) deprovision() error { return c.run(c.plan.Deprovision(c.id)) }

// rawTenant does by itself what the broker's operations cannot do without: their SQL, between two commits in PostgreSQL
// that a recovery from a crash needs. All connections are warm.
type rawTenant struct {
	ctx     context.Context
	server  servers.MySQL
	mysql   *sql.Conn
	intent  *pgx.Conn // commits are on disk when they are acknowledged
	outcome *pgx.Conn // or a moment later

	database, user, password string
}

// An operation's row holds what the broker's holds, names and encrypted password.
const (
	createOperations = `CREATE TABLE IF NOT EXISTS raw_operation (
		id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
		kind text NOT NULL,
		database_name text NOT NULL,
		account text NOT NULL,
		password bytea,
		state text NOT NULL DEFAULT 'in progress')`
	insertOperation = `INSERT INTO raw_operation (kind, database_name, account, password) VALUES ($1, $2, $3, $4)
		RETURNING id`
	updateOperation = `UPDATE raw_operation SET state = 'succeeded' WHERE id = $1`
)

// newRawTenants connects n rawTenants as the broker's account, over TLS.
func newRawTenants(b *testing.B, s servers.MySQL, postgresURL string, n int) (all []tenant) {
	db, err := audit.Credentials{Host: s.Host, Port: s.Port, Username: s.BrokerUser, Password: s.BrokerPassword,
		CACertificate: s.CA}.Open()
	require.NoError(b, err)
	b.Cleanup(func() { _ = db.Close() })
	for range n {
		t := &rawTenant{ctx: b.Context(), server: s, intent: connect(b, postgresURL), outcome: connect(b, postgresURL)}
		t.mysql, err = db.Conn(t.ctx)
		require.NoError(b, err)
		for conn, statement := range map[*pgx.Conn]string{t.intent: createOperations,
			t.outcome: "SET synchronous_commit = off"} {
			_, err = conn.Exec(t.ctx, statement)
			require.NoError(b, err)
		}
		all = append(all, t)
	}
	return all
}

func connect(b *testing.B, url string) *pgx.Conn {
	conn, err := pgx.Connect(b.Context(), url)
	require.NoError(b, err)
	b.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func (t *rawTenant) provision() error {
	t.database, t.user, t.password = "db_"+strings.ToLower(rand.Text()), "u_"+strings.ToLower(rand.Text()), rand.Text()
	return t.record("provision", "CREATE DATABASE IF NOT EXISTS `"+t.database+"` CHARACTER SET `utf8mb4`")
}

// identified precedes and follows a password, as the broker has the server hash it.
var identified = map[string][2]string{
	mysqld.MySQL:   {"IDENTIFIED WITH caching_sha2_password BY '", "'"},
	mysqld.MariaDB: {"IDENTIFIED VIA mysql_native_password USING PASSWORD('", "')"},
}

// bind grants the privileges that the broker grants to a binding with the role read-write.
func (t *rawTenant) bind() error {
	by := identified[t.server.Flavour]
	return t.record("bind", "CREATE USER '"+t.user+"'@'%' "+by[0]+t.password+by[1]+
		" REQUIRE SSL WITH MAX_USER_CONNECTIONS 10 PASSWORD EXPIRE NEVER ACCOUNT UNLOCK",
		"GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, REFERENCES, INDEX, ALTER, CREATE TEMPORARY TABLES, "+
			"LOCK TABLES, EXECUTE, CREATE VIEW, SHOW VIEW, CREATE ROUTINE, ALTER ROUTINE, EVENT, TRIGGER ON `"+
			strings.ReplaceAll(t.database, "_", `\_`)+"`.* TO '"+t.user+"'@'%'")
}

// unbind ends the account's sessions and drops it.
func (t *rawTenant) unbind() error {
	return t.recordAround("unbind", func() error {
		sessions, err := t.sessions()
		if err != nil {
			return err
		}
		for _, id := range sessions {
			if err := t.exec(fmt.Sprintf("KILL %d", id)); err != nil {
				return err
			}
		}
		return t.exec("DROP USER IF EXISTS '" + t.user + "'@'%'")
	})
}

// sessions queries all sessions, because both servers do that much faster than a query with a condition.
func (t *rawTenant) sessions() (ids []int64, err error) {
	rows, err := t.mysql.QueryContext(t.ctx, "SHOW PROCESSLIST")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var id int64
	var user string
	fields := []any{&id, &user}
	for len(fields) < len(columns) {
		fields = append(fields, new(sql.RawBytes))
	}
	for rows.Next() {
		if err := rows.Scan(fields...); err != nil {
			return nil, err
		}
		if user == t.user {
			ids = append(ids, id)
		}
	}
	return ids, rows.Err()
}

func (t *rawTenant) deprovision() error {
	return t.record("deprovision", "DROP DATABASE IF EXISTS `"+t.database+"`")
}

// record runs statements between the commits of their intent and their outcome.
func (t *rawTenant) record(kind string, statements ...string) error {
	return t.recordAround(kind, func() error {
		for _, statement := range statements {
			if err := t.exec(statement); err != nil {
				return err
			}
		}
		return nil
	})
}

// recordAround uses statements that pgx prepares once for each connection.
func (t *rawTenant) recordAround(kind string, do func() error) error {
	var id int64
	err := t.intent.QueryRow(t.ctx, insertOperation, kind, t.database, t.user, make([]byte, 64)).Scan(&id)
	if err != nil {
		return fmt.Errorf("record the intent: %w", err)
	}
	if err := do(); err != nil {
		return err
	}
	if _, err := t.outcome.Exec(t.ctx, updateOperation, id); err != nil {
		return fmt.Errorf("record the outcome: %w", err)
	}
	return nil
}

func (t *rawTenant) exec(statement string) error {
	_, err := t.mysql.ExecContext(t.ctx, statement)
	return err
}
