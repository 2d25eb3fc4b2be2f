package binlog

import (
	"context"
	"errors"
	"strings"

	"github.com/go-sql-driver/mysql"
)

func (r *Replay) query(ctx context.Context, e event) error {
	q, err := e.query()
	if err != nil {
		return err
	}
	text := comments.ReplaceAllString(q.text, "")
	word := strings.ToUpper(ofTransaction.FindString(text))
	switch {
	case word == "BEGIN":
		r.session = rowSession{q}
		return nil
	case word == "COMMIT":
		return r.commit(ctx)
	case word == "ROLLBACK" && !strings.Contains(strings.ToUpper(text), " TO "):
		return r.rollback(ctx)
	case word == "XA":
		return r.xaStatement(ctx, q, text)
	case word != "":
		return r.savepoint(ctx, text)
	}
	inputs := r.inputs
	r.inputs = ""
	if q.repeated || ofServer.MatchString(text) ||
		q.database != r.Source && renamed(text, q.tokens(text), r.Source, r.Target) == text {
		return nil
	}
	if inputs != "" {
		return &UnsupportedError{What: "a statement whose result depends on " + inputs}
	}
	if err := r.commit(ctx); err != nil {
		return err
	}
	r.session = rowSession{q} // of the rows of CREATE TABLE … SELECT
	if err := r.Alive(); err != nil {
		return err
	}
	clear(r.refused)
	if q.failure != 0 {
		return r.fail(ctx, q, text)
	}
	return r.define(ctx, q, text)
}

// fail repeats a statement that failed, because it may have changed something before, as CREATE OR REPLACE drops what
// there was. It does so again if it fails in the same way.
func (r *Replay) fail(ctx context.Context, q query, text string) error {
	text, all, err := r.forTarget(ctx, q, text)
	if err != nil {
		return err
	}
	otherwise := &UnsupportedError{
		What: "a statement" + subject(all) + " that failed, and does not fail again in the same way"}
	if drops, creates := ofDatabase(all); drops || creates {
		return otherwise
	}
	if err := r.set(ctx, q); err != nil {
		return err
	}
	_, err = r.ddl.ExecContext(ctx, text)
	refusal, refused := errors.AsType[*mysql.MySQLError](err)
	switch {
	case refused && refusal.Number == q.failure:
		return nil
	case err != nil && !refused:
		return err
	}
	return otherwise
}

// forTarget returns a statement as the target's server is to read it, and its tokens.
func (r *Replay) forTarget(ctx context.Context, q query, text string) (string, []token, error) {
	text, err := r.withHeadInClient(ctx, definer.ReplaceAllString(text, "$1"), q)
	if err != nil {
		return "", nil, err
	}
	text = renamed(text, q.tokens(text), r.Source, r.Target)
	return text, q.tokens(text), nil
}

func (r *Replay) rollback(ctx context.Context) error {
	r.batch, r.batchBytes = r.batch[:0], 0
	r.endStatement()
	if !r.began {
		return nil
	}
	r.began = false
	_, err := r.rows.ExecContext(ctx, "ROLLBACK")
	return err
}

func (r *Replay) savepoint(ctx context.Context, text string) error {
	sets := strings.EqualFold(text[:1], "S") // and does not go back to one
	if r.xa.open {
		if !sets {
			return &UnsupportedError{What: "a partial rollback of an XA transaction"}
		}
		return nil
	}
	if err := r.flush(ctx); err != nil {
		return err
	}
	if !r.began && !sets {
		return nil
	}
	if err := r.begin(ctx); err != nil { // the savepoint may precede the first row
		return err
	}
	_, err := r.rows.ExecContext(ctx, withBackticks(text))
	return err
}

// define changes definitions with the settings that the session had.
func (r *Replay) define(ctx context.Context, q query, text string) error {
	if drops, creates := ofDatabase(q.tokens(text)); drops || creates {
		return r.defineDatabase(ctx, q, text, drops, creates)
	}
	if err := r.refuseStored(ctx, q, text); err != nil {
		return err
	}
	text, all, err := r.forTarget(ctx, q, text)
	if err != nil {
		return err
	}
	if err := r.refuse(ctx, q, all); err != nil {
		return err
	}
	text, generated := committed(text, all)
	if generated || r.withRows { // CREATE TABLE … SELECT
		q.generated()
	}
	if err := r.refuseGenerated(ctx, q, text, generated || r.withRows); err != nil {
		return err
	}
	if err := r.set(ctx, q); err != nil {
		return err
	}
	_, err = r.ddl.ExecContext(ctx, text)
	if err == nil && !generated && !r.withRows {
		return r.refuseLike(ctx, q, text)
	}
	refusal, _ := errors.AsType[*mysql.MySQLError](err)
	if refusal == nil {
		return err
	}
	settling := r.at.Before(r.Settled)
	switch refusal.Number {
	case 1064: // MySQL joins words where it leaves out the signs of a comment
		return &UnsupportedError{What: "a statement" + subject(all) + " that the server does not understand again"}
	case 1050, 1304, 1359, 1537: // it exists
		if p := program.FindStringSubmatch(text); p != nil && settling {
			if _, dropping := r.ddl.ExecContext(ctx, "DROP "+p[1]+" "+p[2]); dropping != nil {
				return errors.Join(err, dropping)
			}
			_, err = r.ddl.ExecContext(ctx, text)
		}
	case 1146: // MariaDB also logs that a temporary table is renamed, which only its session had
		if tables, renames := strings.CutPrefix(strings.ToUpper(text), "RENAME"); renames && !r.MySQL {
			if !strings.Contains(tables, ",") {
				return nil
			}
			return &UnsupportedError{What: "a statement that renames temporary tables among others"}
		}
	case 1051, 1305, 1360, 1539, 4091, 4092: // it does not; MariaDB drops the other ones that the statement names
		if strings.HasPrefix(strings.ToUpper(text), "DROP") && (settling || !r.MySQL) {
			return nil
		}
	}
	return err
}

// defineDatabase empties the database instead of dropping it. One that is created anew gets the character set that the
// statement gives it, or else that of the server at that time.
func (r *Replay) defineDatabase(ctx context.Context, q query, text string, drops, creates bool) error {
	if drops {
		r.dropped = true
		if err := r.Empty(ctx); err != nil {
			return err
		}
	}
	if !creates || !r.dropped {
		return nil
	}
	r.dropped = false
	if err := r.set(ctx, q); err != nil {
		return err
	}
	var collation string
	if err := r.ddl.QueryRowContext(ctx, "SELECT @@SESSION.collation_server").Scan(&collation); err != nil {
		return err
	}
	name := "ALTER DATABASE " + quoteName(r.Target) + " "
	if _, err := r.ddl.ExecContext(ctx, name+"COLLATE "+collation); err != nil {
		return err
	}
	options := createDatabase.ReplaceAllString(text, "")
	if strings.TrimSpace(options) == "" {
		return nil
	}
	_, err := r.ddl.ExecContext(ctx, name+options)
	return err
}
