package mysqladmin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/plan"
)

// Sizes include the texts of routines, events, triggers, views and constraints, which are in no table's file.
func TestProgramSizes(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		f.must(f.server.Setup.CheckPrivileges(t.Context()))
		const long = 1 << 20
		text := "'" + strings.Repeat("x", long) + "'"
		db := f.loginAs(f.account(plan.ReadWrite))
		f.exec(db, "CREATE TABLE t (id INT)")
		texts := []string{
			"CREATE PROCEDURE p() SELECT " + text,
			"CREATE FUNCTION fn() RETURNS INT DETERMINISTIC RETURN LENGTH(" + text + ")",
			"CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO SELECT " + text,
			"CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET NEW.id = LENGTH(" + text + ")",
			"CREATE VIEW v AS SELECT " + text + " AS x",
		}
		if f.config.Name == "mysql" { // MariaDB takes 64 KiB of that
			texts = append(texts, "CREATE TABLE c (x LONGTEXT, CHECK (x <> "+text+"))",
				"CREATE LIBRARY l LANGUAGE JAVASCRIPT AS "+text)
		}
		measure := func() int64 {
			t.Helper()
			size, err := f.server.Sizes.Of(t.Context(), f.database)
			f.must(err)
			files, err := f.server.Sizes.Files(t.Context())
			f.must(err)
			all, err := f.server.Sizes.Programs(t.Context(), time.Minute)
			f.must(err)
			one, err := f.server.Sizes.ProgramsOf(t.Context(), f.database, time.Minute)
			if err != nil || one != all[f.database] {
				t.Errorf("one database has %d, among all %d; %v", one, all[f.database], err)
			}
			if size.Files < files[f.database]+one {
				t.Errorf("the database takes %d, its files %d and programs %d", size.Files, files[f.database], one)
			}
			return one
		}
		assert.EqualValues(t, 0, measure(), "a table alone")
		before := int64(0)
		for _, statement := range texts {
			f.exec(db, statement)
			now := measure()
			assert.True(t, now >= before+2*long && now <= before+2*long+4096, "%.40s…: %d bytes more", statement, now-before)
			before = now
		}
	})
}

// programs returns the size of the database's stored programs.
func (f *fixture) programs() int64 {
	f.t.Helper()
	bytes, err := f.server.Sizes.ProgramsOf(f.t.Context(), f.database, time.Minute)
	f.must(err)
	return bytes
}
