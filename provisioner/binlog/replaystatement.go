package binlog

import (
	"context"
	"errors"
	"fmt"
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
		return nil
	case word == "COMMIT":
		return r.commit(ctx)
	case word == "ROLLBACK" && !strings.Contains(strings.ToUpper(text), " TO "):
		return r.rollback(ctx)
	case word == "XA":
		return r.xaStatement(ctx, text)
	case word != "":
		return r.savepoint(ctx, text)
	}
	if ofServer.MatchString(text) || q.database != r.Source && renamed(text, r.Source, r.Target) == text {
		return nil
	}
	if err := r.commit(ctx); err != nil {
		return err
	}
	if err := r.define(ctx, q, text); err != nil && !q.failed {
		return err
	}
	return nil
}

func (r *Replay) rollback(ctx context.Context) error {
	r.batch, r.batchBytes = r.batch[:0], 0
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
			return &UnsupportedError{"a partial rollback of an XA transaction"}
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
	if err := r.Alive(); err != nil {
		return err
	}
	if kind := ofDatabase.FindStringSubmatch(text); kind != nil {
		if strings.EqualFold(kind[1], "DROP") {
			return r.Empty(ctx)
		}
		return nil
	}
	text = renamed(text, r.Source, r.Target)
	text = startsTransaction.ReplaceAllString(definer.ReplaceAllString(text, "$1"), "")
	if _, err := r.ddl.ExecContext(ctx, "SET SESSION "+strings.Join(q.set, ", ")); err != nil {
		return err
	}
	if err := r.setClient(ctx, q.client); err != nil {
		return err
	}
	_, err := r.ddl.ExecContext(ctx, text)
	if err == nil || !r.at.Before(r.Settled) {
		return err
	}
	refusal, _ := errors.AsType[*mysql.MySQLError](err)
	if refusal == nil {
		return err
	}
	switch refusal.Number {
	case 1050, 1304, 1359, 1537: // it exists
		if p := program.FindStringSubmatch(text); p != nil {
			if _, dropping := r.ddl.ExecContext(ctx, "DROP "+p[1]+" "+p[2]); dropping != nil {
				return errors.Join(err, dropping)
			}
			_, err = r.ddl.ExecContext(ctx, text)
		}
	case 1051, 1305, 1360, 1539, 4092: // it does not
		if strings.HasPrefix(strings.ToUpper(text), "DROP") {
			return nil
		}
	}
	return err
}

// setClient sets how the server reads the texts of statements, by the id of a collation; 0 changes nothing. MariaDB
// from 10.10 on does not know the ids of its newer collations here, but the name of their character set.
func (r *Replay) setClient(ctx context.Context, collation uint64) error {
	if collation == 0 {
		return nil
	}
	_, err := r.ddl.ExecContext(ctx, fmt.Sprintf("SET SESSION character_set_client = %d", collation))
	const unknown = 1115
	if refusal, _ := errors.AsType[*mysql.MySQLError](err); refusal == nil || refusal.Number != unknown || r.MySQL {
		return err
	}
	var name string
	if err := r.ddl.QueryRowContext(ctx, fmt.Sprintf(`SELECT character_set_name
		FROM information_schema.collation_character_set_applicability WHERE id = %d`, collation)).Scan(&name); err != nil {
		return fmt.Errorf("look for the character set of collation %d: %w", collation, err)
	}
	_, err = r.ddl.ExecContext(ctx, "SET SESSION character_set_client = "+name)
	return err
}
