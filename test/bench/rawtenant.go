package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"mysql-broker/provisioner/launcher/mysqld"
)

// rawNote says what a rawTenant does.
const rawNote = "Raw: the same SQL from one warm connection for each client, passwords hashed by the server; before " +
	"it one durable INSERT into PostgreSQL, after it one UPDATE with synchronous_commit=off, as it could be done again " +
	"after a crash; each a prepared statement in a transaction of its own, on warm connections. Unbind: the account's " +
	"sessions are listed, those there are killed, and the account is dropped."

// rawTenant does the necessary work on the servers by itself, over warm connections: the SQL of the broker's
// operations, between the commits that a recovery from a crash needs.
type rawTenant struct {
	ctx     context.Context
	flavour string
	mysql   *sql.Conn
	intent  *pgx.Conn // commits are on disk when they are acknowledged
	outcome *pgx.Conn // or a moment later

	user, password string // of the current life
}

// Statements of intent and outcome; an operation's row holds what the broker's holds, names and encrypted password.
const (
	createOperations = `CREATE TABLE IF NOT EXISTS operation (
		id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
		kind text NOT NULL,
		database_name text NOT NULL,
		account text NOT NULL,
		password bytea,
		state text NOT NULL DEFAULT 'in progress')`
	insertOperation = `INSERT INTO operation (kind, database_name, account, password) VALUES ($1, $2, $3, $4) RETURNING id`
	updateOperation = `UPDATE operation SET state = 'succeeded' WHERE id = $1`
)

// rawTenants creates and connects n rawTenants.
func (b *bench) rawTenants(ctx context.Context, s server, n int) (_ []tenant, end func() error, err error) {
	database, err := b.newDatabase(ctx)
	if err != nil {
		return nil, nil, err
	}
	db, err := s.connect(n)
	if err != nil {
		return nil, nil, err
	}
	var all []tenant
	end = func() error { return errors.Join(closeAll(all), db.Close()) }
	for range n {
		t, err := newRawTenant(ctx, s.Flavour, db, database)
		if err != nil {
			return nil, nil, errors.Join(err, end())
		}
		all = append(all, t)
	}
	return all, end, nil
}

func closeAll(tenants []tenant) error {
	var errs []error
	for _, t := range tenants {
		errs = append(errs, t.close(context.Background()))
	}
	return errors.Join(errs...)
}

func newRawTenant(ctx context.Context, flavour string, db *sql.DB, database string) (_ *rawTenant, err error) {
	t := &rawTenant{ctx: ctx, flavour: flavour}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close(ctx))
		}
	}()
	if t.mysql, err = db.Conn(ctx); err != nil {
		return nil, err
	}
	if t.intent, err = pgx.Connect(ctx, database); err != nil {
		return nil, err
	}
	if _, err = t.intent.Exec(ctx, createOperations); err != nil {
		return nil, err
	}
	if _, err = t.intent.Prepare(ctx, insertOperation, insertOperation); err != nil {
		return nil, err
	}
	if t.outcome, err = pgx.Connect(ctx, database); err != nil {
		return nil, err
	}
	if _, err = t.outcome.Exec(ctx, "SET synchronous_commit = off"); err != nil {
		return nil, err
	}
	_, err = t.outcome.Prepare(ctx, updateOperation, updateOperation)
	return t, err
}

func (t *rawTenant) close(ctx context.Context) error {
	var errs []error
	if t.mysql != nil {
		errs = append(errs, t.mysql.Close())
	}
	for _, conn := range []*pgx.Conn{t.intent, t.outcome} {
		if conn != nil {
			errs = append(errs, conn.Close(ctx))
		}
	}
	return errors.Join(errs...)
}

func (t *rawTenant) life() []operation {
	database, account, password := "db_"+strings.ToLower(rand.Text()), "u_"+strings.ToLower(rand.Text()), rand.Text()
	t.user, t.password = account, password
	recorded := func(kind string, do func() error) operation {
		return operation{name: kind, do: func() error { return t.record(kind, database, account, do) }}
	}
	return []operation{
		recorded("provision", func() error {
			return t.exec("CREATE DATABASE IF NOT EXISTS `" + database + "` CHARACTER SET `utf8mb4`")
		}),
		recorded("bind", func() error { return t.createAccount(database, account, password) }),
		recorded("unbind", func() error { return t.dropAccount(account) }),
		recorded("deprovision", func() error { return t.exec("DROP DATABASE IF EXISTS `" + database + "`") }),
	}
}

func (t *rawTenant) account() (user, password string, err error) { return t.user, t.password, nil }

// record does something between the commits of its intent and its outcome.
func (t *rawTenant) record(kind, database, account string, do func() error) error {
	var id int64
	encrypted := make([]byte, 64)
	err := t.intent.QueryRow(t.ctx, insertOperation, kind, database, account, encrypted).Scan(&id)
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

// identified precedes and follows a password, as the broker has the server hash it.
var identified = map[string][2]string{
	mysqld.MySQL:   {"IDENTIFIED WITH caching_sha2_password BY '", "'"},
	mysqld.MariaDB: {"IDENTIFIED VIA mysql_native_password USING PASSWORD('", "')"},
}

// createAccount creates an account with the privileges that the broker gives to a binding with the role read-write.
func (t *rawTenant) createAccount(database, account, password string) error {
	by := identified[t.flavour]
	if err := t.exec("CREATE USER '" + account + "'@'%' " + by[0] + password + by[1] + " REQUIRE SSL WITH " +
		"MAX_USER_CONNECTIONS 10 PASSWORD EXPIRE NEVER ACCOUNT UNLOCK"); err != nil {
		return err
	}
	return t.exec("GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, REFERENCES, INDEX, ALTER, " +
		"CREATE TEMPORARY TABLES, LOCK TABLES, EXECUTE, CREATE VIEW, SHOW VIEW, CREATE ROUTINE, ALTER ROUTINE, EVENT, " +
		"TRIGGER ON `" + strings.ReplaceAll(database, "_", `\_`) + "`.* TO '" + account + "'@'%'")
}

// dropAccount drops an account and ends its sessions.
func (t *rawTenant) dropAccount(account string) error {
	sessions, err := t.sessions(account)
	if err != nil {
		return err
	}
	for _, id := range sessions {
		if err := t.exec(fmt.Sprintf("KILL %d", id)); err != nil {
			return err
		}
	}
	return t.exec("DROP USER IF EXISTS '" + account + "'@'%'")
}

// sessions queries all sessions, because both servers do that much faster than a query with a condition.
func (t *rawTenant) sessions(account string) (ids []int64, err error) {
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
		if user == account {
			ids = append(ids, id)
		}
	}
	return ids, rows.Err()
}

func (t *rawTenant) exec(statement string) error {
	_, err := t.mysql.ExecContext(t.ctx, statement)
	return err
}
