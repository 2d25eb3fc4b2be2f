package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/go-sql-driver/mysql"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/transfer"
	"mysql-broker/test/audit"
)

const (
	copyWorkers = 2 // as the broker copies; mydumper and myloader get as many threads
	copyFrom    = "bench_from"
	copyTo      = "bench_to"
)

const copyNote = "Copy: provisioner/transfer from one database of a server to another one, with two connections for each, " +
	"including the comparison of all rows by checksums. Raw: the flavour's own dump program, piped into its client; it " +
	"compares nothing."

const mydumperNote = "Raw: Debian's mydumper to a directory and myloader from there, with two threads each. They compare " +
	"nothing, and lose digits of FLOATs."

// measureCopies compares copies of databases with the programs for that.
func measureCopies(ctx context.Context, b *bench) error {
	for _, mebibytes := range b.sizes(20) {
		for _, s := range b.servers {
			if err := b.measureCopy(ctx, s, mebibytes); err != nil {
				return fmt.Errorf("%s: %w", s.Flavour, err)
			}
		}
	}
	return nil
}

// copyRounds is the number of measurements with so much data: those of much data take minutes.
func (b *bench) copyRounds(mebibytes int) int {
	if mebibytes > 500 {
		return 1
	}
	return b.rounds(3)
}

func (b *bench) measureCopy(ctx context.Context, s server, mebibytes int) (err error) {
	db, err := openBench(s, "")
	if err != nil {
		return err
	}
	defer func() {
		_, dropping := db.ExecContext(context.WithoutCancel(ctx), "DROP DATABASE IF EXISTS "+copyFrom)
		_, droppingCopy := db.ExecContext(context.WithoutCancel(ctx), "DROP DATABASE IF EXISTS "+copyTo)
		err = errors.Join(err, dropping, droppingCopy, db.Close())
	}()
	if _, err := db.ExecContext(ctx, "CREATE DATABASE "+copyFrom); err != nil {
		return err
	}
	if err := b.fillTables(ctx, s, mebibytes); err != nil {
		return fmt.Errorf("fill the source: %w", err)
	}
	const took = "took"
	timed := func(do func(context.Context) error) func(context.Context) (figures, error) {
		return func(ctx context.Context) (figures, error) {
			for _, statement := range []string{"DROP DATABASE IF EXISTS " + copyTo, "CREATE DATABASE " + copyTo} {
				if _, err := db.ExecContext(ctx, statement); err != nil {
					return nil, err
				}
			}
			since := time.Now()
			err := do(ctx)
			return figures{took: time.Since(since).Seconds()}, err
		}
	}
	copied := timed(func(ctx context.Context) error { return copyOnce(ctx, s) })
	size := fmt.Sprintf("copy of %d MiB", mebibytes)
	c, err := compare(ctx, b.copyRounds(mebibytes), copied, timed(func(ctx context.Context) error { return b.pipeDump(ctx, s) }))
	if err != nil {
		return err
	}
	b.report.add(c.row(took, Row{What: size + ", against a piped dump", Flavour: s.Flavour, Unit: "s", Goal: atMost(0.6),
		Note: copyNote}))
	if _, err := exec.LookPath("mydumper"); err != nil {
		return fmt.Errorf("install Debian's mydumper: %w", err)
	}
	c, err = compare(ctx, b.copyRounds(mebibytes), copied, timed(func(ctx context.Context) error { return b.mydump(ctx, s) }))
	if err != nil {
		return err
	}
	b.report.add(c.row(took, Row{What: size + ", against mydumper and myloader", Flavour: s.Flavour, Unit: "s",
		Goal: atMost(1), Note: mydumperNote}))
	return nil
}

// openBench opens a pool as the bench's administrator.
func openBench(s server, database string) (*sql.DB, error) {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.Net, cfg.Addr, cfg.DBName = s.User, s.Password, "tcp", s.Address(), database
	cfg.MaxAllowedPacket, cfg.TLSConfig, cfg.Logger = 1<<30-1, "skip-verify", &mysql.NopLogger{}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

const (
	tablesToFill = 4
	rowBytes     = 190 // about, with indexes
)

// tableToFill is a table with what applications have: numbers, dates, texts, and three indexes.
const tableToFill = `CREATE TABLE orders_%d (id BIGINT AUTO_INCREMENT PRIMARY KEY, customer INT NOT NULL, placed DATETIME NOT
	NULL, amount DECIMAL(10,2) NOT NULL, state ENUM('open', 'paid', 'sent') NOT NULL, note VARCHAR(200), KEY (customer),
	KEY (placed))`

// fillStatement inserts rows that do not compress to nothing.
const fillStatement = `INSERT INTO orders_%d (customer, placed, amount, state, note)
	SELECT 1 + RAND() * 100000, '2024-01-01' + INTERVAL RAND() * 30000000 SECOND, RAND() * 10000, 1 + RAND() * 2,
	CONCAT(SHA2(RAND(), 256), ' ', LEFT(SHA2(RAND(), 256), RAND() * 30)) FROM %s LIMIT %d`

func (b *bench) fillTables(ctx context.Context, s server, mebibytes int) error {
	db, err := openBench(s, copyFrom)
	if err != nil {
		return err
	}
	defer db.Close()
	return fillOrders(ctx, db, mebibytes)
}

func fillOrders(ctx context.Context, db *sql.DB, mebibytes int) error {
	rows := mebibytes << 20 / rowBytes / tablesToFill
	for n := range tablesToFill {
		if _, err := db.ExecContext(ctx, fmt.Sprintf(tableToFill, n)); err != nil {
			return err
		}
		for made := 0; made < rows; {
			from, more := fmt.Sprintf("orders_%d", n), min(max(made, 1), rows-made, 100_000)
			if made == 0 {
				from = "(SELECT 1) AS one"
			}
			if _, err := db.ExecContext(ctx, fmt.Sprintf(fillStatement, n, from, more)); err != nil {
				return err
			}
			made += more
		}
		if _, err := db.ExecContext(ctx, fmt.Sprintf("ANALYZE TABLE orders_%d", n)); err != nil {
			return err
		}
	}
	return nil
}

func copyOnce(ctx context.Context, s server) error {
	from, err := openBench(s, copyFrom)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := openBench(s, copyTo)
	if err != nil {
		return err
	}
	defer to.Close()
	return transfer.Copy(ctx, transfer.Source{Rows: from, Programs: from, Database: copyFrom},
		transfer.Target{DB: to, Database: copyTo}, transfer.Options{Workers: copyWorkers})
}

// clientOptions writes the file by which a program of the flavour logs in, so that no password is among its arguments.
func (b *bench) clientOptions(s server, c audit.Credentials) (path string, err error) {
	f, err := os.CreateTemp(b.dir, "*-client.cnf")
	if err != nil {
		return "", err
	}
	_, err = fmt.Fprintf(f, "[client]\nhost=%s\nport=%d\nuser=%s\npassword=%s\n", c.Host, c.Port, c.Username, c.Password)
	if err == nil && s.Flavour == mysqld.MariaDB { // MySQL's programs use TLS where they can
		_, err = fmt.Fprintln(f, "ssl")
	}
	return f.Name(), errors.Join(err, f.Close())
}

// administrator is how programs log in as the bench's administrator.
func administrator(s server, database string) audit.Credentials {
	return audit.Credentials{Host: s.Host, Port: s.Port, Username: s.User, Password: s.Password, Database: database}
}

// dumpPrograms are the dump program and the client of each flavour, which are beside its server, or in the PATH.
var dumpPrograms = map[string][2]string{
	mysqld.MySQL:   {"mysqldump", "mysql"},
	mysqld.MariaDB: {"mariadb-dump", "mariadb"},
}

func (b *bench) pipeDump(ctx context.Context, s server) error {
	return b.pipe(ctx, s, administrator(s, copyFrom), administrator(s, copyTo))
}

// pipe pipes a dump of one database into another one. s is a server of the flavour of both.
func (b *bench) pipe(ctx context.Context, s server, from, to audit.Credentials) error {
	reading, err := b.clientOptions(s, from)
	if err != nil {
		return err
	}
	writing, err := b.clientOptions(s, to)
	if err != nil {
		return err
	}
	programs := dumpPrograms[s.Flavour]
	for n, name := range programs {
		beside := filepath.Join(filepath.Dir(s.binary.Path), name)
		if _, err := os.Stat(beside); err == nil {
			programs[n] = beside
		}
	}
	arguments := []string{"--defaults-file=" + reading, "--single-transaction", "--routines", "--triggers",
		"--no-tablespaces"}
	if s.Flavour == mysqld.MySQL {
		arguments = append(arguments, "--set-gtid-purged=OFF")
	}
	dump := exec.CommandContext(ctx, programs[0], append(arguments, from.Database)...)
	load := exec.CommandContext(ctx, programs[1], "--defaults-file="+writing, to.Database)
	text, err := dump.StdoutPipe()
	if err != nil {
		return err
	}
	load.Stdin = text
	load.Stderr, dump.Stderr = os.Stderr, os.Stderr
	if err := dump.Start(); err != nil {
		return err
	}
	err = load.Run()
	return errors.Join(err, text.Close(), dump.Wait()) // a dump that nobody reads would wait for ever
}

func (b *bench) mydump(ctx context.Context, s server) error {
	options, err := b.clientOptions(s, administrator(s, copyFrom))
	if err != nil {
		return err
	}
	dir := filepath.Join(b.dir, "mydumper")
	threads := strconv.Itoa(copyWorkers)
	dump := exec.CommandContext(ctx, "mydumper", "--defaults-file="+options, "--threads="+threads, "--database="+copyFrom,
		"--outputdir="+dir, "--rows=50000", "--trx-consistency-only", "--ssl")
	load := exec.CommandContext(ctx, "myloader", "--defaults-file="+options, "--threads="+threads, "--database="+copyTo,
		"--directory="+dir, "--enable-binlog", "--ssl")
	for _, cmd := range []*exec.Cmd{dump, load} {
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, out)
		}
	}
	return os.RemoveAll(dir)
}
