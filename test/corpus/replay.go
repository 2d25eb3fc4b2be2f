package corpus

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"mysql-broker/provisioner/binlog"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/transfer"
	"mysql-broker/test/binlogs"
)

// replayed is the database in which what the logs have of the source is replayed.
const replayed = "r"

// mostReplays limits how often a file is run again without statements whose changes cannot be replayed.
const mostReplays = 40

// notLogged matches statements that set what servers do not log, so that definitions can differ, and beginnings of what
// MariaDB logs as something else, or not, as it fails, or as other numbers of a sequence (docs/backups.md). The last one
// creates a table that MariaDB cannot read while it is open in another character set.
var notLogged = regexp.MustCompile(`(?i)^\s*(?:` + strings.Join([]string{
	`set\b.*\b(?:old_mode|innodb_compression_default|mhnsw_default_\w+|div_precision_increment)\b`,
	`set\b.*\b(?:block_encryption_mode|default_regex_flags|unique_checks\s*=\s*0)\b`,
	`create table \S+ ?\(p point not null default if\(unix_timestamp\(\)`,
	`create table \S+ as select .*\bf1_two_inserts\w*\(\)`,
	`create temporary table t[45]\b`,
	`create sequence seq_t_i\b`,
	`create table \S+ \(d1 date not null, d2 date, gd text as\b`}, "|") + `)`)

// mostChanged limits how much of the log the changes of one statement take. MariaDB finds each row that they change in a
// table without a key by a whole scan.
const mostChanged = 64 << 10

// replays runs each file in a database of its own, replays what the server has logged, and compares. Where that is
// refused or fails, it begins again without the statement that was at fault.
func (r *run) replays(ctx context.Context, files []string) error {
	for _, file := range files {
		without := map[int]bool{}
		for range mostReplays {
			failure, err := r.replay(ctx, file, without)
			if err != nil {
				return err
			}
			if failure == nil {
				break
			}
			refused := isRefused(failure.err)
			text := fmt.Sprintf("replay: %v: %.300s", failure.err, failure.statement)
			switch {
			case failure.err == nil:
				r.log("%s: left out: changes too many rows: %.300s", r.short(file), failure.statement)
			case refused:
				r.refuses(file, text)
			default:
				r.differs(file, text)
			}
			count := len(without)
			maps.Copy(without, failure.statements)
			if len(without) == count {
				if refused {
					r.differs(file, "replay: no statement is at fault")
				}
				break
			}
		}
		r.finished(file)
	}
	return nil
}

// isRefused reports whether a replay was refused with a sentence.
func isRefused(err error) bool {
	_, refused := errors.AsType[*binlog.UnsupportedError](err)
	return refused
}

// replayFailure is why a replay ended before the log did, or did not begin.
type replayFailure struct {
	err        error        // nil if a statement changes too many rows
	statement  string       // the last one of those that may be at fault
	statements map[int]bool // by their numbers in the file
}

// replay runs the statements of a file, except for some, and replays and compares what they have done.
func (r *run) replay(ctx context.Context, file string, without map[int]bool) (failure *replayFailure, err error) {
	b := &batch{run: r, id: strings.ToLower(rand.Text()[:12]), password: rand.Text(), names: names{owner: map[string]string{}},
		databases: []string{source, replayed}, without: without}
	defer func() { err = cmp.Or(err, b.drop()) }()
	if err := errors.Join(b.set(ctx), b.create(ctx)); err != nil {
		return nil, err
	}
	from, err := b.position(ctx)
	if err != nil {
		return nil, err
	}
	var ran []logged
	b.ran = func(number int, statement string) {
		at, err := b.position(ctx)
		if err == nil { // otherwise the statement has ended the server
			ran = append(ran, logged{number, statement, at})
		}
	}
	if err := b.fill(ctx, b.open(b.account(source), b.database(source)), file); err != nil {
		return nil, err
	}
	if len(b.names.owner) == 0 {
		return nil, nil
	}
	r.same[file] = true
	if large := largeChange(from, ran); large != nil && b.server.Flavour == mysqld.MariaDB {
		return large, nil
	}
	logs, err := b.logs(ctx, from)
	if err != nil {
		return nil, err
	}
	if err := b.repeat(ctx, logs); err != nil {
		return faultOf(err, ran), ctx.Err()
	}
	r.objects += len(b.names.owner)
	return nil, b.compare(ctx, map[string]string{replayed: "replay: "})
}

// logged is a statement that was run, and where the log ended then.
type logged struct {
	number    int
	statement string
	end       binlog.Position
}

var (
	eventAt     = regexp.MustCompile(`replay the event at (\S+):(\d+): `)
	changesRows = regexp.MustCompile(`(?i)^\s*(?:insert|update|delete|replace|load|call|execute|commit|with)\b`)
	findsRows   = regexp.MustCompile(`(?i)^\s*(?:update|delete|replace|call|execute|with|begin\s+not)\b`)
)

// largeChange finds a statement that changes more rows than mostChanged, if there is one.
func largeChange(from binlog.Position, ran []logged) *replayFailure {
	for n, one := range ran {
		start := from
		if n > 0 {
			start = ran[n-1].end
		}
		if start.File == one.end.File && one.end.Offset < start.Offset+mostChanged {
			continue
		}
		statements := changedBy(ran[:n+1], findsRows)
		if len(statements) > 0 {
			return &replayFailure{statement: one.statement, statements: statements}
		}
	}
	return nil
}

// changedBy are the numbers of those statements whose changes came to the log with the last one.
func changedBy(ran []logged, changes *regexp.Regexp) map[int]bool {
	statements, last := map[int]bool{}, len(ran)-1
	for n := last; n >= 0 && (n == last || n > 0 && ran[n].end == ran[n-1].end); n-- { // what is not in the log before its commit
		if changes.MatchString(ran[n].statement) {
			statements[ran[n].number] = true
		}
	}
	return statements
}

// faultOf finds the statement whose events were not replayed: with it, a commit has those of its transaction.
func faultOf(err error, ran []logged) *replayFailure {
	failure := &replayFailure{err: err, statements: map[int]bool{}}
	found := eventAt.FindStringSubmatch(err.Error())
	if found == nil {
		return failure
	}
	at := binlog.Position{File: found[1]}
	if _, err := fmt.Sscan(found[2], &at.Offset); err != nil {
		return failure
	}
	last := slices.IndexFunc(ran, func(one logged) bool { return at.Before(one.end) })
	if last < 0 {
		return failure
	}
	failure.statement, failure.statements = ran[last].statement, changedBy(ran[:last+1], changesRows)
	failure.statements[ran[last].number] = true
	return failure
}

// position is where the server's logs end.
func (b *batch) position(ctx context.Context) (at binlog.Position, err error) {
	statement := "SHOW MASTER STATUS"
	if b.server.Flavour == mysqld.MySQL {
		statement = "SHOW BINARY LOG STATUS"
	}
	rows, err := b.admin.QueryContext(ctx, statement)
	if err != nil {
		return at, err
	}
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	columns, err := rows.Columns()
	if err != nil {
		return at, err
	}
	into := []any{&at.File, &at.Offset}
	for len(into) < len(columns) {
		into = append(into, &sql.RawBytes{})
	}
	if rows.Next() {
		err = rows.Scan(into...)
	}
	return at, errors.Join(err, rows.Err())
}

// logs reads the binary logs from a position on.
func (b *batch) logs(ctx context.Context, from binlog.Position) (logs *binlogs.Archive, err error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(b.server.CA))
	logs = &binlogs.Archive{}
	err = binlog.Dump(ctx, binlog.Login{Addr: b.server.Address(), User: b.server.User, Password: b.server.Password,
		TLS: &tls.Config{RootCAs: roots, ServerName: b.server.Host}}, from, logs)
	if err == nil && logs.At.File != "" {
		_, err = b.admin.ExecContext(ctx, "PURGE BINARY LOGS TO '"+logs.At.File+"'")
	}
	return logs, err
}

// repeat replays the logs on a server that takes statements of any length, as the broker does.
func (b *batch) repeat(ctx context.Context, logs *binlogs.Archive) (err error) {
	var packet int
	err = b.admin.QueryRowContext(ctx, "SELECT @@GLOBAL.max_allowed_packet").Scan(&packet)
	if err == nil { // rows as long as a statement of the source are replayed by longer ones
		_, err = b.admin.ExecContext(ctx, "SET GLOBAL max_allowed_packet = 1 << 30")
	}
	if err != nil {
		return err
	}
	defer func() {
		_, restoring := b.admin.ExecContext(ctx, fmt.Sprintf("SET GLOBAL max_allowed_packet = %d", packet))
		err = errors.Join(err, restoring)
	}()
	now := time.Now()
	owner := b.open(b.account(replayed), b.database(replayed))
	r := &binlog.Replay{Administrator: b.open(b.server.User, b.database(replayed)), Owner: owner, Source: b.database(source),
		Target: b.database(replayed), MySQL: b.server.Flavour == mysqld.MySQL, Until: now.Add(time.Hour),
		Alive: func() error { return nil },
		Empty: func(ctx context.Context) error {
			return transfer.Empty(ctx, transfer.Target{DB: owner, Database: b.database(replayed)}, func() error { return nil })
		}}
	defer r.Close()
	return logs.Replay(ctx, r, binlog.Part{Target: logs.At, Until: now})
}
