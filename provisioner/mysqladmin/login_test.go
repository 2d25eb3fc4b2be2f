package mysqladmin_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/test/limits"
)

// A statement is sent only if the check succeeds, and soon enough after it.
func TestExecIf(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		a := f.account(plan.ReadWrite)
		f.must(f.session.Accounts.Create(t.Context(), a))
		cfg := f.config
		cfg.User, cfg.Password = a.Name, a.Password
		create := func(table string, check func() error) error {
			return mysqladmin.ExecIf(t.Context(), cfg, "CREATE TABLE "+f.database+"."+table+" (n INT PRIMARY KEY)", check)
		}
		f.must(create("soon", func() error { return nil }))
		lost := errors.New("lease lost")
		assert.ErrorIs(t, create("never", func() error { return lost }), lost, "the check failed, and the statement")
		err := create("late", func() error {
			for deadline := time.Now().Add(limits.Stuck); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
				var sessions int
				f.must(f.root.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.processlist WHERE user = ?",
					a.Name).Scan(&sessions))
				if sessions == 0 {
					return nil
				}
			}
			return errors.New("the server did not close the session")
		})
		assert.Error(t, err, "a statement was carried out long after its check")
		var tables string
		f.must(f.root.QueryRowContext(t.Context(), "SELECT GROUP_CONCAT(table_name) FROM information_schema.tables "+
			"WHERE table_schema = ?", f.database).Scan(&tables))
		assert.Equal(t, "soon", tables, "there are tables")
	})
}
