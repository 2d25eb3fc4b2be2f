package mysqladmin_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/plan"
	"mysql-broker/test/testdrive"
)

var everyRole = []plan.Role{plan.ReadOnly, plan.ReadWrite, plan.Admin}

func TestReadOnlyReadsAndNothingElse(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		writer := f.loginAs(f.account(plan.ReadWrite))
		f.exec(writer, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)",
			"CREATE VIEW v AS SELECT id FROM t")
		reader := f.loginAs(f.account(plan.ReadOnly))
		f.exec(reader, "SELECT * FROM t", "SELECT * FROM v", "SHOW CREATE VIEW v")
		f.refused(reader, "INSERT INTO t VALUES (2)", "UPDATE t SET id = 2", "DELETE FROM t", "DROP TABLE t",
			"CREATE TABLE t2 (id INT)", "ALTER TABLE t ADD COLUMN x INT", "TRUNCATE t", "LOCK TABLES t WRITE",
			"CREATE VIEW v2 AS SELECT 1", "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO SELECT 1")
	})
}

func TestReadWriteAndAdminDoAllThatAnApplicationNeeds(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		for _, role := range everyRole[1:] {
			db, err := f.loginAs(f.account(role)).Conn(t.Context())
			f.must(err)
			f.exec(db,
				"CREATE TABLE parent (id INT PRIMARY KEY)",
				"CREATE TABLE t (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id))",
				"ALTER TABLE t ADD COLUMN x INT", "CREATE INDEX i ON t (x)",
				"INSERT INTO t (id) VALUES (1)", "UPDATE t SET x = 2", "SELECT * FROM t",
				"CREATE VIEW v AS SELECT id FROM t", "SELECT * FROM v", "SHOW CREATE VIEW v",
				"CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET NEW.x = 1",
				"CREATE PROCEDURE p() SELECT 1", "CALL p()",
				"CREATE FUNCTION fn() RETURNS INT DETERMINISTIC RETURN 1", "SELECT fn()",
				"CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO SELECT 1",
				"LOCK TABLES t WRITE", "UNLOCK TABLES",
				"CREATE TEMPORARY TABLE tmp (id INT)", "INSERT INTO tmp VALUES (1)",
				"DELETE FROM t", "DROP EVENT e", "DROP FUNCTION fn", "DROP PROCEDURE p", "DROP VIEW v",
				"TRUNCATE t", "DROP TABLE t, parent")
			f.must(db.Close())
		}
	})
}

func TestAccountCannotReachADatabaseThatDiffersAtAnUnderscore(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		neighbour := "dbx" + f.database[len("db_"):]
		f.exec(f.root, "CREATE DATABASE `"+neighbour+"`", "CREATE TABLE `"+neighbour+"`.t (id INT)")
		t.Cleanup(func() {
			_, err := f.root.ExecContext(context.Background(), "DROP DATABASE `"+neighbour+"`")
			f.must(err)
		})
		for _, role := range everyRole {
			db := f.loginAs(f.account(role))
			f.refused(db, "USE `"+neighbour+"`", "SELECT * FROM `"+neighbour+"`.t", "DROP TABLE `"+neighbour+"`.t")
			visible := testdrive.ReadAll(t, db, "SHOW DATABASES")
			assert.True(t, !slices.Contains(visible, neighbour) && slices.Contains(visible, f.database),
				"%s sees %v", role, visible)
		}
	})
}
