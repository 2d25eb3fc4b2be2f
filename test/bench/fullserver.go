package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"mysql-broker/provisioner/launcher/mysqld"
)

const (
	crowdDatabases = 10_000
	crowdAccounts  = 2 * crowdDatabases
	crowdLives     = 10 // in a round
	crowdRounds    = 6
)

// measureFullServers compares servers with many databases and accounts with empty ones. If the same SQL without the
// broker takes longer too, the server is the cause; the rest is the broker's.
func measureFullServers(ctx context.Context, b *bench) error {
	for _, s := range b.servers {
		if err := b.measureFullServer(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s.Flavour, err)
		}
	}
	return nil
}

func (b *bench) measureFullServer(ctx context.Context, s server) (err error) {
	full, err := b.startServer(ctx, s.binary)
	if err != nil {
		return err
	}
	databases, accounts := crowdDatabases, crowdAccounts
	if b.options.quick {
		databases, accounts = databases/20, accounts/20
	}
	if err := full.crowd(ctx, databases, accounts); err != nil {
		return fmt.Errorf("fill the server: %w", err)
	}
	crowded, end, err := b.pair(ctx, full)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	alone, endAlone, err := b.pair(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, endAlone()) }()
	c, err := compare(ctx, b.rounds(crowdRounds), crowded, alone)
	if err != nil {
		return err
	}
	note := fmt.Sprintf("Broker: on a server with %d databases and %d accounts; raw: on one without.", databases, accounts)
	for _, name := range operationNames {
		figure := figureName(name, 50)
		b.report.add(c.row(rawPart+figure, Row{What: name + ", full server, p50: the SQL alone", Flavour: s.Flavour,
			Unit: "ms", Note: note, Detail: true}))
		b.report.add(c.row(ownPart+figure, Row{What: name + ", full server, p50: what the broker adds", Flavour: s.Flavour,
			Unit: "ms", Note: note, Goal: atMost(1.2)}))
	}
	return nil
}

// Parts of an operation's figures.
const (
	rawPart = "raw "
	ownPart = "own "
)

// pair is a side that measures, on one server, a broker and the same SQL without it, each under its own names.
func (b *bench) pair(ctx context.Context, s server) (side func(context.Context) (figures, error), end func() error,
	err error) {
	through, without, end, err := b.tenants(ctx, s, 1)
	if err != nil {
		return nil, nil, err
	}
	platform := through[0].(*brokerTenant)
	return func(context.Context) (figures, error) {
		// The broker closes a connection that was idle for more than two minutes.
		c, err := newClient(ctx, platform.addr)
		if err != nil {
			return nil, err
		}
		if err := platform.client.close(); err != nil {
			return nil, err
		}
		platform.client = c
		broker, raw := took{}, took{}
		for range crowdLives {
			if err := errors.Join(broker.live(through[0]), raw.live(without[0])); err != nil {
				return nil, err
			}
		}
		f := figures{}
		ofRaw := raw.figures()
		for name, figure := range broker.figures() {
			f[rawPart+name], f[ownPart+name] = ofRaw[name], figure-ofRaw[name]
		}
		return f, nil
	}, end, nil
}

// crowd creates databases and accounts. It copies one account's rows in the grant tables: see FLUSH PRIVILEGES in the
// manuals.
func (s server) crowd(ctx context.Context, databases, accounts int) (err error) {
	admin := s
	admin.BrokerUser, admin.BrokerPassword = s.User, s.Password
	db, err := admin.connect(1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for n := range databases {
		if _, err := db.ExecContext(ctx, fmt.Sprintf("CREATE DATABASE db_crowd%05d", n)); err != nil {
			return err
		}
	}
	statements := []string{"CREATE USER u_crowd@'%' IDENTIFIED BY '" + s.Password + "' REQUIRE SSL",
		"GRANT ALL PRIVILEGES ON `db\\_crowd00000`.* TO u_crowd@'%'"}
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	table := map[string]string{mysqld.MySQL: "user", mysqld.MariaDB: "global_priv"}[s.Flavour]
	for _, name := range []string{table, "db"} {
		if err := copyGrants(ctx, db, name, accounts); err != nil {
			return fmt.Errorf("copy mysql.%s: %w", name, err)
		}
	}
	_, err = db.ExecContext(ctx, "FLUSH PRIVILEGES")
	return err
}

// copyGrants copies the row of u_crowd in a grant table: two accounts for each database.
func copyGrants(ctx context.Context, db *sql.DB, table string, copies int) error {
	rows, err := db.QueryContext(ctx, "SELECT * FROM mysql."+table+" LIMIT 0")
	if err != nil {
		return err
	}
	columns, err := rows.Columns()
	if err := errors.Join(err, rows.Close()); err != nil {
		return err
	}
	values := make([]string, len(columns))
	for i, column := range columns {
		switch values[i] = "t.`" + column + "`"; strings.ToLower(column) {
		case "user":
			values[i] = "CONCAT('u_crowd', LPAD(n, 5, '0'))"
		case "db":
			values[i] = "CONCAT('db\\\\_crowd', LPAD(n DIV 2, 5, '0'))"
		}
	}
	const batch = 1000 // the default maximum of a recursive query
	for first := 0; first < copies; first += batch {
		if _, err := db.ExecContext(ctx, fmt.Sprintf("INSERT INTO mysql.%s WITH RECURSIVE numbers (n) AS "+
			"(SELECT %d UNION ALL SELECT n + 1 FROM numbers WHERE n < %d) SELECT %s FROM mysql.%[1]s AS t, numbers "+
			"WHERE t.user = 'u_crowd'", table, first, min(first+batch, copies)-1, strings.Join(values, ", "))); err != nil {
			return err
		}
	}
	return nil
}
