package transfer

import (
	"context"
	"database/sql"
	"regexp"
	"strings"
)

// LoadPrograms is Load for a target that has the tables of the dump, which may have been moved there from the database
// from.
func LoadPrograms(ctx context.Context, s Schema, to Target, from string, o Options) error {
	o = o.complete()
	if err := s.check(o); err != nil {
		return err
	}
	b := newBuilder(s, to, o)
	conn, err := b.connect(ctx)
	if err != nil {
		return err
	}
	defer discard(conn)
	if err := b.dropPrograms(ctx, conn); err != nil {
		return err
	}
	if err := b.setDefaults(ctx, conn); err != nil {
		return err
	}
	if err := b.leaveFormerName(ctx, from); err != nil {
		return err
	}
	if err := b.makeRoutinesAndViews(ctx, conn); err != nil {
		return err
	}
	return b.makeLate(ctx)
}

var foreignKey = regexp.MustCompile("^CONSTRAINT (`(?:[^`]|``)+`) FOREIGN KEY ")

// leaveFormerName takes the name of the database from which tables were moved out of their definitions, where servers
// keep it: before sequences that are defaults of columns, on MariaDB, and before tables that do not exist, to which
// foreign keys refer.
func (b *builder) leaveFormerName(ctx context.Context, from string) error {
	const keepHistory = "SET SESSION foreign_key_checks = 0 /*M! , system_versioning_alter_history = KEEP */"
	conn, err := b.connect(ctx, looseSession, keepHistory)
	if err != nil {
		return err
	}
	defer discard(conn)
	tables, err := names(ctx, conn, `SELECT 'TABLE', table_name FROM information_schema.columns
		WHERE table_schema = DATABASE() AND column_default LIKE `+utf8Literal("%"+escapedPattern(quoteName(from))+".%")+`
		UNION SELECT 'TABLE', table_name FROM information_schema.referential_constraints
		WHERE constraint_schema = DATABASE() AND unique_constraint_schema = `+utf8Literal(from))
	if err != nil {
		return err
	}
	for _, found := range tables {
		t := table{Name: found.Name}
		if err := conn.QueryRowContext(ctx, "SHOW CREATE TABLE "+t.String()).Scan(new(string), &t.Create); err != nil {
			return err
		}
		for line := range strings.SplitSeq(t.Create, "\n") {
			own := strings.ReplaceAll(line, quoteName(from)+".", "")
			if own == line {
				continue
			}
			own = strings.TrimSuffix(strings.TrimSpace(own), ",")
			change := "MODIFY " + own
			if key := foreignKey.FindStringSubmatch(own); key != nil { // no statement can also add one of that name
				change = "DROP FOREIGN KEY " + key[1]
			}
			if err := b.exec(ctx, conn, "ALTER TABLE "+t.String()+" "+change); err != nil {
				return err
			}
		}
	}
	return b.addDropped(ctx, conn)
}

// addDropped adds the foreign keys that leaveFormerName has dropped, also in an attempt that was interrupted.
func (b *builder) addDropped(ctx context.Context, conn *sql.Conn) error {
	for _, t := range b.Tables {
		if !strings.Contains(t.Create, " FOREIGN KEY ") {
			continue
		}
		var has string
		if err := conn.QueryRowContext(ctx, "SHOW CREATE TABLE "+t.String()).Scan(new(string), &has); err != nil {
			return err
		}
		for line := range strings.SplitSeq(t.Create, "\n") {
			own := strings.TrimSuffix(strings.TrimSpace(line), ",")
			key := foreignKey.FindString(own)
			if key == "" || strings.Contains(has, key) {
				continue
			}
			if err := b.exec(ctx, conn, "ALTER TABLE "+t.String()+" ADD "+own); err != nil {
				return err
			}
		}
		if err := b.dropAddedKeys(ctx, conn, &t); err != nil {
			return err
		}
	}
	return nil
}
