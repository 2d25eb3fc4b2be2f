package copying

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

func split(s *script, escapes bool) (all []string) {
	for {
		statement, found := s.next(escapes)
		if !found {
			return all
		}
		all = append(all, statement)
	}
}

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
		{"SELECT 1 -- a; b\n; # c; d\nSELECT 2 /* ; */; -- the end;", []string{"SELECT 1 -- a; b", "SELECT 2 /* ; */"}},
		{"SELECT 5--1; SELECT 2", []string{"SELECT 5--1", "SELECT 2"}},
		{"/*!40101 SET @a = 1 */; /* nothing */;", []string{"/*!40101 SET @a = 1 */"}},
		{"DELIMITER //\nCREATE PROCEDURE p() BEGIN SELECT 1; END//\ndelimiter ;\nCALL p();",
			[]string{"CREATE PROCEDURE p() BEGIN SELECT 1; END", "CALL p()"}},
		{"SELECT 'open; string", []string{"SELECT 'open; string"}},
		{"SELECT 1; /* open; comment", []string{"SELECT 1"}},
		{"'DELIMITER //\n' ; SELECT 2", []string{"'DELIMITER //\n'", "SELECT 2"}},
		{"-- a\nDELIMITER //\nSELECT 1; END//", []string{"SELECT 1; END"}},
		{"--\n# a\n#b;\n  Delimiter $$ -- c\nSELECT 1; END$$", []string{"SELECT 1; END"}},
		{"/* a;\n'b */DELIMITER //\r\nSELECT 1; END//", []string{"SELECT 1; END"}},
		{"SELECT 1; -- a\nDELIMITER //\nSELECT 2; END//", []string{"SELECT 1", "SELECT 2; END"}},
		{"SELECT 1; /* a */\n\nDELIMITER //\nSELECT 2; END// DELIMITER ;\nSELECT 3;SELECT 4", []string{"SELECT 1", "SELECT 2; END",
			"SELECT 3", "SELECT 4"}},
		{"DELIMITER ';;'\nSELECT 1;2;;", []string{"SELECT 1;2"}},
		{"SELECT 1\\g SELECT ';\\g'\\G\nSELECT 2", []string{"SELECT 1", "SELECT ';\\g'", "SELECT 2"}},
		{"/*!50003 CREATE /* a; */ TRIGGER ';' */;/*M! SET @a = 1 */;", []string{"/*!50003 CREATE /* a; */ TRIGGER ';' */",
			"/*M! SET @a = 1 */"}},
		{"SELECT /*+ a';b */ 1; SELECT 2", []string{"SELECT /*+ a';b */ 1", "SELECT 2"}},
		{"SELECT `a\\`; SELECT 2--1; SELECT 3 --;\n;", []string{"SELECT `a\\`", "SELECT 2--1", "SELECT 3 --"}},
	} {
		got := split(newScript(test.script), true)
		assert.True(t, slices.Equal(got, test.want), "%q: got %q", test.script, got)
	}
	if got := split(newScript(`SELECT 'a\'; SELECT "b\"; SELECT 'c'';'`), false); !slices.Equal(got, []string{`SELECT 'a\'`,
		`SELECT "b\"`, `SELECT 'c'';'`}) {
		t.Errorf("without escapes: %q", got)
	}
	for statement, want := range map[string]string{"create table t (id int)": " (CREATE TABLE)", "SELECT 'secret'": " (SELECT)",
		"'secret'": "", "INSERT INTO secret1": " (INSERT INTO)"} {
		assert.Equal(t, want, beginning(statement), "%q begins with", statement)
	}
}
