package testdrive

import (
	"slices"
	"strings"
	"testing"
)

// Contents lists everything that a database has: every object as it was created, without its definer, and the checksum
// of every table.
func Contents(t *testing.T, c Credentials) (all []string) {
	t.Helper()
	db := c.Open(t)
	for _, query := range []string{
		"SELECT CONCAT('table ', table_name) FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY 1",
		`SELECT CONCAT_WS(' ', 'column', table_name, ordinal_position, column_name, column_type, column_default, is_nullable,
			extra, generation_expression) FROM information_schema.columns WHERE table_schema = DATABASE() ORDER BY 1`,
		`SELECT CONCAT_WS(' ', 'index', table_name, index_name, seq_in_index, column_name, non_unique)
			FROM information_schema.statistics WHERE table_schema = DATABASE() ORDER BY 1`,
		`SELECT CONCAT_WS(' ', 'foreign key', table_name, constraint_name, unique_constraint_schema,
			referenced_table_name)
			FROM information_schema.referential_constraints WHERE constraint_schema = DATABASE() ORDER BY 1`,
		"SELECT CONCAT_WS(' ', 'view', table_name, view_definition) FROM information_schema.views WHERE table_schema = DATABASE() ORDER BY 1",
		`SELECT CONCAT_WS(' ', 'trigger', trigger_name, event_object_table, action_timing, event_manipulation, action_statement)
			FROM information_schema.triggers WHERE trigger_schema = DATABASE() ORDER BY 1`,
		"SELECT CONCAT_WS(' ', 'routine', routine_type, routine_name) FROM information_schema.routines WHERE routine_schema = DATABASE() ORDER BY 1",
		"SELECT CONCAT_WS(' ', 'event', event_name, status) FROM information_schema.events WHERE event_schema = DATABASE() ORDER BY 1",
	} {
		for _, line := range ReadAll(t, db, query) {
			all = append(all, strings.ReplaceAll(line, c.Database, "DATABASE"))
		}
	}
	tables := ReadAll(t, db, `SELECT table_name FROM information_schema.tables
		WHERE table_schema = DATABASE() AND table_type LIKE '%TABLE' ORDER BY 1`)
	for _, table := range tables {
		var name, sum string
		if err := db.QueryRow("CHECKSUM TABLE `"+strings.ReplaceAll(table, "`", "``")+"` EXTENDED").Scan(&name, &sum); err != nil {
			t.Fatal(err)
		}
		all = append(all, "checksum "+table+" "+sum)
	}
	return all
}

func ExpectContents(t *testing.T, what string, c Credentials, want []string) {
	t.Helper()
	got := Contents(t, c)
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("%s lacks %q", what, line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("%s has %q", what, line)
		}
	}
}
