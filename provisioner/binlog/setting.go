package binlog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// resets are the settings of a session that statements name only where they differ from these, or not at all. The
// latter accept what the source has accepted.
var resets = map[string]string{
	"auto_increment_increment":         "1",
	"auto_increment_offset":            "1",
	"character_set_collations":         "LEFT('a', 0)", // as '' can be NULL, by the last statement's SQL mode
	"check_constraint_checks":          "1",
	"collation_database":               "DEFAULT",
	"default_collation_for_utf8mb4":    "DEFAULT",
	"innodb_strict_mode":               "0", // only on MariaDB
	"lc_time_names":                    "0",
	"restrict_fk_on_non_standard_key":  "0",
	"sql_if_exists":                    "0",
	"system_versioning_alter_history":  "KEEP",
	"system_versioning_insert_history": "0",
	"time_zone":                        "DEFAULT",
	"explicit_defaults_for_timestamp":  "0", // on MariaDB, a flag says 1
}

// readResets finds out which of these settings the server has, and whether it computes stored columns itself.
func (r *Replay) readResets(ctx context.Context) error {
	names := strings.Join(slices.Collect(maps.Keys(resets)), "', '")
	query := "SHOW SESSION VARIABLES WHERE variable_name IN ('" + names + "')"
	rows, err := r.ddl.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	r.resets = map[string]string{}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return err
		}
		r.resets[name] = resets[name]
	}
	if r.MySQL {
		r.resets["explicit_defaults_for_timestamp"] = "DEFAULT"
		delete(r.resets, "innodb_strict_mode") // no owner may set it
	}
	if err := rows.Err(); err != nil {
		return err
	}
	const version = "SELECT CAST(SUBSTRING_INDEX(VERSION(), '.', 1) AS SIGNED) >= 11"
	return r.ddl.QueryRowContext(ctx, version).Scan(&r.recomputes)
}

// set gives the session that changes definitions the settings of a statement's session.
func (r *Replay) set(ctx context.Context, q query) error {
	settings := maps.Clone(r.resets)
	maps.Copy(settings, q.set)
	if len(q.collations) > 0 {
		var err error
		if settings["character_set_collations"], err = r.defaultCollations(ctx, q.collations); err != nil {
			return err
		}
	}
	var assignments []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		assignments = append(assignments, name+" = "+settings[name])
	}
	if _, err := r.ddl.ExecContext(ctx, "SET SESSION "+strings.Join(assignments, ", ")); err != nil {
		return err
	}
	return r.setClient(ctx, q.client)
}

// defaultCollations returns the value of MariaDB's character_set_collations.
func (r *Replay) defaultCollations(ctx context.Context, ids [][2]uint64) (string, error) {
	var pairs []string
	for _, pair := range ids {
		var set, collation string
		err := r.rows.QueryRowContext(ctx, `SELECT character_set_name, full_collation_name
			FROM information_schema.collation_character_set_applicability WHERE id = ?`, pair[1]).Scan(&set, &collation)
		if err != nil {
			return "", fmt.Errorf("find the collation %d: %w", pair[1], err)
		}
		pairs = append(pairs, set+"="+collation)
	}
	return literal(strings.Join(pairs, ",")), nil
}

// literal is the value of a setting. It names its character set, as the server takes a text without one for what the
// last statement's collation_connection says. The text has neither quotes nor backslashes.
func literal(text string) string { return "_utf8mb4'" + text + "'" }

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
		return fmt.Errorf("find the character set of collation %d: %w", collation, err)
	}
	_, err = r.ddl.ExecContext(ctx, "SET SESSION character_set_client = "+name)
	return err
}
