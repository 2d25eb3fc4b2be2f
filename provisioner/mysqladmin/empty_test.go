package mysqladmin_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/mysqladmin"
)

// A database is dropped only if it is empty.
func TestDropEmptyDatabase(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		for _, made := range []struct{ kind, statement string }{
			{"TABLE", "CREATE TABLE %.x (n INT)"},
			{"VIEW", "CREATE VIEW %.x AS SELECT 1 AS n"},
			{"PROCEDURE", "CREATE PROCEDURE %.x() SELECT 1"},
			{"FUNCTION", "CREATE FUNCTION %.x() RETURNS INT DETERMINISTIC RETURN 1"},
			{"EVENT", "CREATE EVENT %.x ON SCHEDULE EVERY 1 DAY DO SELECT 1"},
		} {
			f.exec(f.root, strings.Replace(made.statement, "%", "`"+f.database+"`", 1))
			assert.ErrorIs(t, f.session.Databases.DropEmpty(t.Context(), f.database), mysqladmin.ErrHoldsData,
				"with a %s", made.kind)
			holds, err := f.server.HoldsData(t.Context(), f.database)
			assert.True(t, holds && err == nil, "with a %s, it holds data: %t, %v", made.kind, holds, err)
			f.exec(f.root, "DROP "+made.kind+" `"+f.database+"`.x")
		}
		for range 2 { // the second time, it is missing
			f.must(f.session.Databases.DropEmpty(t.Context(), f.database))
		}
		found, err := f.server.DatabaseExists(t.Context(), f.database)
		assert.True(t, !found && err == nil, "exists: %v, %v", found, err)
	})
}
