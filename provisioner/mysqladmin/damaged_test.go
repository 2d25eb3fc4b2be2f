package mysqladmin_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/test/testdrive"
)

// On a full disk, no account is changed; what does not exist counts as dropped.
func TestNoRoomForAccounts(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		there := f.account(plan.ReadWrite)
		f.config.User, f.config.Password = f.rootUser, f.rootPassword
		f.config.Room = func() error { return errors.New("3 MiB are left") }
		full, err := mysqladmin.Open(f.config)
		f.must(err)
		t.Cleanup(func() { f.must(full.Close()) })
		s, err := full.Lock(t.Context(), uniqueName("key_"), leaseHolds)
		f.must(err)
		t.Cleanup(func() { f.must(s.Close()) })
		missing := mysqladmin.Account{Name: uniqueName("u_"), Password: "x", Database: f.database, Role: plan.ReadOnly}
		for doing, err := range map[string]error{"create": s.Accounts.Create(t.Context(), missing),
			"drop": s.Accounts.Drop(t.Context(), there.Name), "lock": s.Accounts.Lock(t.Context(), there.Name)} {
			assert.True(t, errors.Is(err, mysqladmin.ErrNoRoom) && mysqladmin.DiskFull(err), "%s: %v", doing, err)
		}
		f.must(s.Accounts.Drop(t.Context(), missing.Name))
		f.must(f.loginAs(there).PingContext(t.Context()))
	})
}

// A table of accounts that a full disk has damaged is repaired by the next change of an account.
func TestDamagedAccounts(t *testing.T) {
	t.Parallel()
	private := testdrive.Private(t, "mariadb") // MySQL keeps accounts in InnoDB
	private.BrokerUser, private.BrokerPassword = private.User, private.Password
	f := newFixture(t, private)
	var dir string
	f.must(f.root.QueryRowContext(t.Context(), "SELECT @@datadir").Scan(&dir))
	for range 3 {
		f.account(plan.ReadOnly)
	}
	f.exec(f.root, "FLUSH TABLES mysql.global_priv")
	index, err := os.OpenFile(filepath.Join(dir, "mysql", "global_priv.MAI"), os.O_RDWR, 0)
	f.must(err)
	defer index.Close()
	const page = 8192 // of Aria; the first one describes the table
	_, err = index.WriteAt(make([]byte, page), page)
	f.must(err)
	_, err = f.root.ExecContext(t.Context(), "CREATE USER probe")
	require.True(t, mysqladmin.Damaged(err), "the table is not damaged: %v", err)
	a := f.account(plan.ReadWrite)
	f.must(f.loginAs(a).PingContext(t.Context()))
	f.exec(f.root, "CREATE USER probe", "DROP USER probe")
}
