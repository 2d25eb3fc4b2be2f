package galera_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mysql-broker/provisioner/launcher/galera"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestMain(m *testing.M) { servers.Main(m) }

// A broker died after it had given an order, and before the server ended. Another one completes that order, and gives no
// other meanwhile.
func TestGive(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), testdrive.Patience)
	defer cancel()
	db, err := testdrive.Private(t, mysqld.MariaDB).Open()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var dir string // into which the server may write
	if err := db.QueryRowContext(ctx, "SELECT @@GLOBAL.secure_file_priv").Scan(&dir); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "order")
	if _, err := db.ExecContext(ctx, "SELECT CONCAT('begin ', UNIX_TIMESTAMP(), '\\n') INTO DUMPFILE '"+file+"'"); err != nil {
		t.Fatal(err)
	}
	give := func(order galera.Order) error {
		conn, err := db.Conn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return galera.Give(ctx, conn, file, order)
	}
	if err := give(galera.Join); err == nil || !strings.Contains(err.Error(), "another order") {
		t.Errorf("another order: %v", err)
	}
	if err := give(galera.Begin); err != nil {
		t.Errorf("the same order: %v", err)
	}
	testdrive.Eventually(t, testdrive.Patience, "the server has ended", func() bool { return db.PingContext(ctx) != nil })
	if order, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(order), "begin ") {
		t.Errorf("the order is %q, %v", order, err)
	}
}
