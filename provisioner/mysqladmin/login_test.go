package mysqladmin_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/test/testdrive"
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
			testdrive.AwaitTrue(t, f.root, "SELECT COUNT(*) = 0 FROM information_schema.processlist WHERE user = ?", a.Name)
			return nil
		})
		assert.Error(t, err, "a statement was carried out long after its check")
		assert.Equal(t, []string{"soon"}, testdrive.ReadAll(t, f.root, "SHOW TABLES FROM "+f.database))
	})
}
