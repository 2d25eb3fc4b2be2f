package transfer_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/transfer"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// A server that becomes read-only before any statement of a copy does not make the database one that cannot be copied.
func TestCopyToAServerThatBecomesReadOnly(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		f := newFixtureInto(t, s, testdrive.Private(t, s.Flavour))
		f.exec(f.source, "CREATE TABLE parts (id INT PRIMARY KEY, n INT, KEY (n)) PARTITION BY HASH (id) PARTITIONS 2",
			"INSERT INTO parts VALUES (1, 1)", "CREATE VIEW v AS SELECT id FROM parts",
			"CREATE TRIGGER tr BEFORE INSERT ON parts FOR EACH ROW SET NEW.n = 2")
		refused := 0
		for copied, n := false, int64(1); !copied; n++ {
			var statements atomic.Int64
			err := transfer.Copy(t.Context(), f.from, f.to, transfer.Options{Workers: 1, Alive: func() error {
				if statements.Add(1) == n {
					f.exec(f.there, "SET GLOBAL read_only = 1")
				}
				return nil
			}})
			f.exec(f.there, "SET GLOBAL read_only = 0")
			_, isRefused := errors.AsType[*transfer.RefusedError](err)
			copied = err == nil && statements.Load() < n
			assert.False(t, isRefused, "read-only before statement %d: %v", n, err)
			if testdrive.ErrorNumber(err) == 1290 {
				refused++
			} else if !isRefused {
				require.NoError(t, err)
			}
		}
		assert.True(t, refused >= 3, "the server refused only %d statements", refused)
	})
}

// On MySQL, changing the database waits for everybody who uses it, even if nothing changes.
func TestCopyBesideATransaction(t *testing.T) {
	eachServer(t, func(t *testing.T, f *fixture) {
		f.exec(f.source, "CREATE TABLE used (id INT PRIMARY KEY)", "INSERT INTO used VALUES (1)")
		f.exec(f.copied, "ALTER DATABASE CHARACTER SET latin1 COLLATE latin1_german2_ci",
			"CREATE TABLE used (id INT PRIMARY KEY)", "START TRANSACTION", "SELECT id FROM used")
		f.must(transfer.Copy(t.Context(), f.from, f.to, transfer.Options{Workers: 1}))
		f.exec(f.copied, "ROLLBACK")
		f.expectSame("SELECT id FROM used")
	})
}

// A server without partitions, which only MariaDB can be, refuses them, or makes the table without them.
func TestCopyPartitionsWithoutThem(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		if s.Flavour != "mariadb" {
			return
		}
		f := newFixtureInto(t, s, testdrive.PrivateWith(t, "mariadb", "partition=OFF"))
		f.exec(f.source, "ALTER DATABASE COLLATE utf8mb4_unicode_ci", "CREATE TABLE parts (id INT PRIMARY KEY) "+
			"PARTITION BY HASH (id) PARTITIONS 2", "CREATE TABLE more (id INT PRIMARY KEY, d DATE) "+
			"COMMENT '\n PARTITION BY '", "INSERT INTO parts VALUES (1), (2)")
		o := transfer.Options{}
		err := transfer.Copy(t.Context(), f.from, f.to, o)
		refusal, refused := errors.AsType[*transfer.RefusedError](err)
		assert.True(t, refused && refusal.BySettings && strings.HasPrefix(refusal.Sentence, "Table parts has partitions"),
			"a copy with partitions: %v", err)
		o.Unpartitioned = true
		f.must(transfer.Copy(t.Context(), f.from, f.to, o))
	})
}
