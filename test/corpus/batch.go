package corpus

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"mysql-broker/provisioner/transfer"
	"mysql-broker/test/compare"
	"mysql-broker/test/dumps"
	"mysql-broker/test/limits"
)

// Limits of a batch, of a statement and of a file: some of them would run for hours.
const (
	enoughObjects    = 300
	longestStatement = 3 * time.Second
	longestFile      = 20 * time.Second
)

// batch is databases: one with what some files have created, and what was made of it.
type batch struct {
	*run
	id, password string
	opened       []*sql.DB
	names        names
	failed       map[string]bool // failures that dropping an object should have ended
	leftOut      []string        // programs that are broken in the source

	databases []string                           // beginning with the source
	without   map[int]bool                       // statements of the file that are not to be run, by number
	ran       func(number int, statement string) // called after each statement
}

// The databases of a batch that is copied, each with an account that may do everything there.
const (
	source = "s"
	copied = "c"
	loaded = "l"
)

// batch runs some files, and returns how many.
func (r *run) batch(ctx context.Context, files []string) (n int, err error) {
	b := &batch{run: r, id: strings.ToLower(rand.Text()[:12]), password: rand.Text(), failed: map[string]bool{},
		names: names{owner: map[string]string{}}, databases: []string{source, copied, loaded}}
	defer func() { err = cmp.Or(err, b.drop()) }()
	if err := errors.Join(b.set(ctx), b.create(ctx)); err != nil {
		return 0, err
	}
	tenant := b.open(b.account(source), b.database(source))
	for n < len(files) && (n == 0 || len(b.names.owner) < enoughObjects) {
		if err := b.fill(ctx, tenant, files[n]); err != nil {
			return n, err
		}
		n++
	}
	for _, file := range b.names.owner {
		r.same[file] = true
	}
	for len(b.names.owner) > 0 {
		if err := b.set(ctx); err != nil {
			return n, err
		}
		err := b.transfer(ctx)
		if err == nil {
			b.objects += len(b.names.owner)
			return n, b.compare(ctx, map[string]string{copied: "copy: ", loaded: "restored: "})
		}
		if err := b.blame(ctx, err); err != nil {
			return n, err
		}
	}
	return n, nil
}

func (b *batch) database(which string) string { return "db_" + which + b.id }
func (b *batch) account(which string) string  { return "u_" + which + b.id }

func (b *batch) create(ctx context.Context) error {
	for _, which := range b.databases {
		for _, statement := range []string{"CREATE DATABASE %s CHARACTER SET " + b.charset + "/* %s %s */",
			"CREATE USER %[2]s IDENTIFIED BY '%[3]s' /* %[1]s */", "GRANT ALL ON %s.* TO %s /* %s */"} {
			statement = fmt.Sprintf(statement, b.database(which), b.account(which), b.password)
			if _, err := b.admin.ExecContext(ctx, statement); err != nil {
				return fmt.Errorf("%s: %w", statement, err)
			}
		}
	}
	return nil
}

// set sets what the server may have lost.
func (b *batch) set(ctx context.Context) error {
	for _, setting := range b.settings {
		if _, err := b.admin.ExecContext(ctx, "SET GLOBAL "+setting); err != nil {
			return err
		}
	}
	return nil
}

func (b *batch) drop() error {
	var errs []error
	for _, db := range b.opened {
		errs = append(errs, db.Close())
	}
	for _, which := range b.databases {
		for _, statement := range []string{"DROP DATABASE IF EXISTS " + b.database(which), "DROP USER IF EXISTS " + b.account(which)} {
			_, err := b.admin.ExecContext(context.Background(), statement)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (b *batch) open(user, database string) *sql.DB {
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User, cfg.Passwd, cfg.DBName = "tcp", b.server.Address(), user, b.password, database
	cfg.TLSConfig, cfg.Logger, cfg.MaxAllowedPacket = "skip-verify", &mysql.NopLogger{}, 1<<30-1
	if user == b.server.User {
		cfg.Passwd = b.server.Password
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		panic(err) // only for options of TLS that do not exist
	}
	db := sql.OpenDB(connector)
	b.opened = append(b.opened, db)
	return db
}

// Statements that no tenant has a reason for, that need the server's files, or that end the session or change what other
// files share.
var unwanted = regexp.MustCompile(`(?i)^\s*(?:use|xa|shutdown|restart|kill|set\s+password|alter\s+user|set\s+(?:default\s+)?role|` +
	`set\s+.*(?:lock_wait_timeout|max_statement_time|init_connect)|alter\s+(?:database|schema)|help|` +
	`alter\s+table\s+.*\b(?:discard|import)\b)\b|\bset\s+password\b`)

// engine matches storage engines that neither copies nor shared servers accept.
var engine = regexp.MustCompile(`(?i)\b(engine|type|(?:default_(?:tmp_)?)?storage_engine)(\s*=\s*|\s+)['"]?(?:myisam|aria|maria|heap|memory|merge|mrg_myisam|csv|archive|` +
	`blackhole|example|federated|ndb|ndbcluster|rocksdb|tokudb|\$\w+)\b['"]?`)

// fill runs the statements of a file.
func (b *batch) fill(ctx context.Context, tenant *sql.DB, file string) error {
	s := script{root: b.root, variables: map[string]string{"$engine_type": "InnoDB", "$ENGINE": "InnoDB",
		"$default_engine": "InnoDB", "$other_engine_type": "InnoDB"}}
	s.read(file, 0)
	b.names.begin(file)
	end := time.Now().Add(longestFile)
	var conn *sql.Conn
	var id int64
	defer func() {
		if conn != nil {
			discard(conn)
		}
	}()
	for number, statement := range s.statements {
		if b.without[number] || unwanted.MatchString(statement) || b.ran != nil && notLogged.MatchString(statement) ||
			time.Now().After(end) {
			continue
		}
		statement, ok := b.names.rewrite(engine.ReplaceAllString(statement, "${1}${2}InnoDB"))
		if !ok {
			continue
		}
		if conn == nil {
			var err error
			if conn, id, err = b.session(ctx, tenant); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
		limited, cancel := context.WithTimeout(ctx, longestStatement)
		_, err := conn.ExecContext(limited, statement)
		cancel()
		if _, refused := errors.AsType[*mysql.MySQLError](err); err != nil && !refused {
			b.log("%s: %v: %.200s", file, err, statement)
			discard(conn)
			conn = nil
			b.kill(ctx, id)
		}
		if b.ran != nil {
			b.ran(number, statement)
		}
	}
	if conn != nil {
		_, _ = conn.ExecContext(ctx, "COMMIT")
	}
	return ctx.Err()
}

// session connects as mysqltest does, as soon as the server is there: some statements end servers.
func (b *batch) session(ctx context.Context, tenant *sql.DB) (conn *sql.Conn, id int64, err error) {
	limited, cancel := context.WithTimeout(ctx, limits.Stuck)
	defer cancel()
	for {
		if conn, err = tenant.Conn(limited); err == nil {
			break
		}
		if limited.Err() != nil {
			return nil, 0, err
		}
		time.Sleep(time.Second / 2)
	}
	for _, statement := range []string{"SET NAMES " + b.charset,
		"SET SESSION lock_wait_timeout = 2, innodb_lock_wait_timeout = 2 /*M! , max_statement_time = 2 */"} {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return nil, 0, err
		}
	}
	return conn, id, conn.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id)
}

// kill returns when a session has ended, unless the server has: some statements can commit after it was killed.
func (b *batch) kill(ctx context.Context, id int64) {
	_, _ = b.admin.ExecContext(ctx, fmt.Sprintf("KILL %d", id)) // unless it has ended
	for there := true; there; time.Sleep(100 * time.Millisecond) {
		err := b.admin.QueryRowContext(ctx,
			"SELECT EXISTS (SELECT 1 FROM information_schema.processlist WHERE id = ?)", id).Scan(&there)
		there = there && err == nil
	}
}

// discard ends a session with all that it has.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = conn.Close()
}

// transfer copies the source, and dumps and loads it.
func (b *batch) transfer(ctx context.Context) error {
	b.leftOut = nil
	from := transfer.Source{Rows: b.open(b.account(source), b.database(source)),
		Programs: b.open(b.server.User, b.database(source)), Database: b.database(source)}
	options := transfer.Options{Events: true, LeftOut: func(program string, broken bool, _ error) bool {
		if broken {
			_, name, _ := strings.Cut(program, " ")
			b.leftOut = append(b.leftOut, name)
		}
		return broken
	}}
	into := func(which string) transfer.Target {
		return transfer.Target{DB: b.open(b.account(which), b.database(which)), Database: b.database(which)}
	}
	if err := transfer.Copy(ctx, from, into(copied), options); err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	dump, err := dumps.Of(ctx, from, options)
	if err != nil {
		return fmt.Errorf("dump: %w", err)
	}
	if err := transfer.Load(ctx, dump.Schema, dump.Parts, into(loaded), options); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	return nil
}

// objectIn finds what can be the name of an object in a failure.
var objectIn = regexp.MustCompile(`(?:[Tt]able|[Vv]iew|procedure|function|trigger|event|library|package|body|sequence|open) (\S+?)[,.:]?(?: |$)`)

// blame drops the object that a failure names, and records what its file comes to.
func (b *batch) blame(ctx context.Context, failure error) error {
	text := failure.Error()
	if b.failed[text] || ctx.Err() != nil {
		return &unnamedError{failure}
	}
	b.failed[text] = true
	for _, found := range objectIn.FindAllStringSubmatch(text, -1) {
		file, owned := b.names.owner[strings.ToLower(found[1])]
		if !owned {
			continue
		}
		if _, refused := errors.AsType[*transfer.RefusedError](failure); refused {
			b.refuses(file, text)
		} else {
			b.differs(file, text)
		}
		return b.dropObject(ctx, found[1])
	}
	return &unnamedError{failure}
}

func (b *batch) dropObject(ctx context.Context, name string) error {
	conn, err := b.open(b.server.User, b.database(source)).Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(ctx, "SET SESSION foreign_key_checks = 0"); err != nil {
		return err
	}
	for _, kind := range []string{"VIEW", "TABLE", "SEQUENCE", "PROCEDURE", "FUNCTION", "TRIGGER", "EVENT", "LIBRARY"} {
		_, _ = conn.ExecContext(ctx, "DROP "+kind+" IF EXISTS `"+name+"`") // most of these kinds are another's
	}
	return nil
}

// compare compares the source with other databases, and says how each was made.
func (b *batch) compare(ctx context.Context, others map[string]string) error {
	facts := map[string]compare.Facts{}
	for _, which := range b.databases {
		var err error
		if facts[which], err = compare.Describe(ctx, compare.Side{DB: b.admin, Database: b.database(which)}); err != nil {
			return fmt.Errorf("compare: %w", err)
		}
	}
	seen := map[compare.Difference]bool{}
	for _, which := range b.databases[1:] {
		for _, d := range compare.Diff(facts[source], facts[which], b.leftOut...) {
			if which == replayed && d.CountsLess() { // the log does not have the numbers of what was rolled back
				continue
			}
			if !seen[d] {
				file := cmp.Or(b.names.owner[strings.ToLower(d.Object)], b.names.file)
				b.differs(file, others[which]+d.String())
			}
			seen[d] = true
		}
	}
	return nil
}
