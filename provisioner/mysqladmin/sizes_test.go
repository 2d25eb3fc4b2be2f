package mysqladmin_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
)

// Tables of every kind are listed by their own names, with the size of their files.
func TestLargestTables(t *testing.T) {
	onEachLaxServer(t, func(t *testing.T, f *fixture) {
		tenant := f.loginAs(f.account(plan.Admin))
		_, tables, count, err := f.server.Sizes.LargestTables(t.Context(), f.database, 10)
		assert.True(t, err == nil && count == 0 && len(tables) == 0, "of an empty database: %v, %d, %v", tables, count, err)
		f.exec(tenant, "CREATE TABLE large (id INT AUTO_INCREMENT PRIMARY KEY, filling VARCHAR(1000))",
			"CREATE TABLE parted (id INT PRIMARY KEY, filling VARCHAR(1000)) PARTITION BY HASH (id) PARTITIONS 3",
			"CREATE TABLE `<script>alert('x-y')</script>` (id INT)",
			"CREATE TABLE `größe-日本` (id INT)",
			"CREATE VIEW seen AS SELECT id FROM large",
			"INSERT INTO large (filling) VALUES (REPEAT('x', 1000))")
		f.createMyISAM("myisam", "id INT")
		for range 11 {
			f.exec(tenant, "INSERT INTO large (filling) SELECT filling FROM large")
		}
		_, tables, count, err = f.server.Sizes.LargestTables(t.Context(), f.database, 10)
		f.must(err)
		sizes := map[string]int64{}
		var sum int64
		for n, table := range tables {
			sizes[table.Name] = table.Bytes
			sum += table.Bytes
			assert.False(t, n > 0 && table.Bytes > tables[n-1].Bytes, "%s comes after a smaller one", table.Name)
		}
		assert.True(t, count == 5 && len(tables) == 5 && tables[0].Name == "large" && sizes["large"] >= 2<<20,
			"%d tables: %v", count, tables)
		small := sizes["größe-日本"]
		assert.True(t, small != 0 && sizes["<script>alert('x-y')</script>"] == small && sizes["parted"] == 3*small,
			"sizes of small tables: %v", sizes)
		whole, err := f.server.Sizes.Of(t.Context(), f.database)
		assert.True(t, err == nil && whole.Files == sum+f.programs(),
			"the tables take %d bytes together, the database %d: %v", sum, whole.Files, err)
		measured, some, count, err := f.server.Sizes.LargestTables(t.Context(), f.database, 2)
		assert.True(t, err == nil && len(some) == 2 && count == 5 && measured.Files == whole.Files,
			"the largest two: %v of %d, %v together, %v", some, count, measured, err)
		f.exec(tenant, "DROP VIEW seen")
		_, without, _, err := f.server.Sizes.LargestTables(t.Context(), f.database, 10)
		f.must(err)
		bytes := map[string]int64{}
		for _, table := range without {
			bytes[table.Name] = table.Bytes
		}
		assert.Equal(t, sizes, bytes, "without a view")
	})
}

// Sizes are read without opening views: these use one another twice, so that MariaDB needs more memory to open them
// together than a session may take.
func TestSizesBesideViewsThatNeedMuchMemory(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		tenant := f.loginAs(f.account(plan.Admin))
		f.exec(tenant, "CREATE TABLE t (a INT PRIMARY KEY)", "CREATE VIEW v0 AS SELECT * FROM t")
		for n, err := 0, error(nil); err == nil && n < 20; n++ { // as many as the server lets a tenant create
			_, err = tenant.ExecContext(t.Context(), fmt.Sprintf("CREATE VIEW v%d AS SELECT x.a FROM v%d x JOIN v%[2]d y USING (a)",
				n+1, n))
		}
		size, err := f.server.Sizes.Of(t.Context(), f.database)
		assert.True(t, err == nil && size.Files >= 16<<10, "the database takes %d bytes: %v", size.Files, err)
		_, err = f.server.Sizes.OfFiles(t.Context(), f.database, 0)
		assert.NoError(t, err)
		_, tables, _, err := f.server.Sizes.LargestTables(t.Context(), f.database, 10)
		assert.True(t, err == nil && len(tables) == 1, "its tables are %v: %v", tables, err)
		_, err = f.server.Sizes.OtherTables(t.Context())
		assert.NoError(t, err)
	})
}

func TestOpenSessions(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		busy, idle, other := f.account(plan.ReadWrite), f.account(plan.ReadOnly), f.account(plan.Admin)
		for _, a := range []mysqladmin.Account{busy, busy, other} {
			f.must(f.connect(a).PingContext(t.Context()))
		}
		open, err := f.server.OpenSessions(t.Context(), []string{busy.Name, idle.Name})
		f.must(err)
		assert.Equal(t, map[string]int{busy.Name: 2, idle.Name: 0}, open)
	})
}

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
			size, err := f.server.Sizes.Of(t.Context(), f.database)
			f.must(err)
			files, err := f.server.Sizes.Files(t.Context())
			f.must(err)
			all, err := f.server.Sizes.Programs(t.Context(), time.Minute)
			f.must(err)
			one, err := f.server.Sizes.ProgramsOf(t.Context(), f.database, time.Minute)
			assert.True(t, err == nil && one == all[f.database],
				"one database has %d, among all %d; %v", one, all[f.database], err)
			assert.True(t, size.Files >= files[f.database]+one,
				"the database takes %d, its files %d and programs %d", size.Files, files[f.database], one)
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
	bytes, err := f.server.Sizes.ProgramsOf(f.t.Context(), f.database, time.Minute)
	f.must(err)
	return bytes
}
