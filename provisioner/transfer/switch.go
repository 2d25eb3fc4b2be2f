package transfer

import (
	"context"
	"regexp"
	"strings"
)

// DropPrograms drops the views, routines, triggers and events of the target.
func DropPrograms(ctx context.Context, to Target, alive func() error) error {
	c := &copier{to: to, options: Options{Alive: alive}}
	conn, err := c.to.connect(ctx)
	if err != nil {
		return err
	}
	defer discard(conn)
	return c.dropPrograms(ctx, conn)
}

// LoadPrograms is Load for a target that has the tables of the dump, which may have been moved there from the database
// from.
func LoadPrograms(ctx context.Context, s Schema, to Target, from string, o Options) error {
	o = o.complete()
	if err := s.programs.check(o); err != nil {
		return err
	}
	c := &copier{snapshot: &snapshot{tables: s.tables, version: s.Version}, programs: s.programs, to: to, options: o}
	conn, err := c.to.connect(ctx)
	if err != nil {
		return err
	}
	defer discard(conn)
	if err := c.dropPrograms(ctx, conn); err != nil {
		return err
	}
	if err := c.setDefaults(ctx, conn); err != nil {
		return err
	}
	if err := c.leaveFormerName(ctx, from); err != nil {
		return err
	}
	if err := c.makeRoutinesAndViews(ctx, conn); err != nil {
		return err
	}
	return c.makeLate(ctx)
}

var foreignKey = regexp.MustCompile("^CONSTRAINT (`(?:[^`]|``)+`) FOREIGN KEY ")

// leaveFormerName takes the name of the database from which tables were moved out of their definitions, where servers
// keep it: before sequences that are defaults of columns, on MariaDB, and before tables that do not exist, to which
// foreign keys refer.
func (c *copier) leaveFormerName(ctx context.Context, from string) error {
	conn, err := c.connectLoosely(ctx)
	if err != nil {
		return err
	}
	defer discard(conn)
	const keepHistory = "SET SESSION foreign_key_checks = 0 /*M! , system_versioning_alter_history = KEEP */"
	if err := c.exec(ctx, conn, keepHistory); err != nil {
		return err
	}
	tables, err := names(ctx, conn, `SELECT 'TABLE', table_name FROM information_schema.columns
		WHERE table_schema = DATABASE() AND column_default LIKE `+utf8Literal("%"+escapedPattern(quoteName(from))+".%")+`
		UNION SELECT 'TABLE', table_name FROM information_schema.referential_constraints
		WHERE constraint_schema = DATABASE() AND unique_constraint_schema = `+utf8Literal(from))
	if err != nil {
		return err
	}
	for _, found := range tables {
		t := table{name: found.name}
		var name, create string
		if err := conn.QueryRowContext(ctx, "SHOW CREATE TABLE "+t.String()).Scan(&name, &create); err != nil {
			return err
		}
		for line := range strings.SplitSeq(create, "\n") {
			own := strings.ReplaceAll(line, quoteName(from)+".", "")
			if own == line {
				continue
			}
			own = strings.TrimSuffix(strings.TrimSpace(own), ",")
			changes := []string{"MODIFY " + own}
			if key := foreignKey.FindStringSubmatch(own); key != nil {
				changes = []string{"DROP FOREIGN KEY " + key[1], "ADD " + own}
			}
			for _, change := range changes {
				if err := c.exec(ctx, conn, "ALTER TABLE "+t.String()+" "+change); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
