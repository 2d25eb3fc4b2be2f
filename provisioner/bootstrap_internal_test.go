package provisioner

import (
	"slices"
	"testing"
)

func TestSplitScript(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		script string
		want   []string
	}{
		{"", nil},
		{" ;; \n", nil},
		{"SELECT 1", []string{"SELECT 1"}},
		{"\ufeffSELECT 1", []string{"SELECT 1"}},
		{"SELECT 1; SELECT 2;\n", []string{"SELECT 1", "SELECT 2"}},
		{`SELECT ';', "a\";", 'it''s;', ` + "`b;```; SELECT 2", []string{`SELECT ';', "a\";", 'it''s;', ` + "`b;```", "SELECT 2"}},
		{"SELECT 1 -- a; b\n; # c; d\nSELECT 2 /* ; */; -- the end;", []string{"SELECT 1 -- a; b", "# c; d\nSELECT 2 /* ; */"}},
		{"SELECT 5--1; SELECT 2", []string{"SELECT 5--1", "SELECT 2"}},
		{"/*!40101 SET @a = 1 */; /* nothing */;", []string{"/*!40101 SET @a = 1 */"}},
		{"DELIMITER //\nCREATE PROCEDURE p() BEGIN SELECT 1; END//\ndelimiter ;\nCALL p();",
			[]string{"CREATE PROCEDURE p() BEGIN SELECT 1; END", "CALL p()"}},
		{"SELECT 'open; string", []string{"SELECT 'open; string"}},
		{"SELECT 1; /* open; comment", []string{"SELECT 1"}},
		{"'DELIMITER //\n' ; SELECT 2", []string{"'DELIMITER //\n'", "SELECT 2"}},
	} {
		if got := splitScript(test.script); !slices.Equal(got, test.want) {
			t.Errorf("%q: got %q", test.script, got)
		}
	}
	for statement, want := range map[string]string{"create table t (id int)": " (CREATE TABLE)", "SELECT 'secret'": " (SELECT)",
		"'secret'": "", "INSERT INTO secret1": " (INSERT INTO)"} {
		if got := beginning(statement); got != want {
			t.Errorf("%q begins with %q", statement, got)
		}
	}
}
