package transfer_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/transfer"
	"mysql-broker/test/dumps"
)

// renames give the name of a table to another one while the first chunk of a_big is read.
var renames = map[string]struct {
	create, during []string
	again          bool // else what was read is that of the snapshot, and the copy goes on
}{
	"an online schema change": {
		[]string{"CREATE TABLE orders (id INT PRIMARY KEY, v VARCHAR(20))", "INSERT INTO orders VALUES (1, 'x'), (2, 'x'), (3, 'x')",
			"CREATE TABLE _orders_gho (id INT PRIMARY KEY, v VARCHAR(20), extra INT)", "INSERT INTO _orders_gho (id, v) VALUES (1, 'x')"},
		[]string{"INSERT INTO _orders_gho (id, v) VALUES (2, 'x'), (3, 'x')", "RENAME TABLE orders TO _orders_del, _orders_gho TO orders"},
		true},
	"tables of one definition that change places": {
		[]string{"CREATE TABLE p (id INT PRIMARY KEY)", "INSERT INTO p VALUES (1)", "CREATE TABLE q (id INT PRIMARY KEY)",
			"INSERT INTO q VALUES (2)"},
		[]string{"RENAME TABLE p TO z, q TO p, z TO q", "INSERT INTO p VALUES (3)"}, true},
	"a partition that changes places with a table": {
		[]string{"CREATE TABLE p (id INT PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 " +
			"VALUES LESS THAN MAXVALUE)", "INSERT INTO p VALUES (1), (11)", "CREATE TABLE q (id INT PRIMARY KEY)", "INSERT INTO q VALUES (2)"},
		[]string{"ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE q"}, true},
	"a table that is created anew": {
		[]string{"CREATE TABLE p (id INT PRIMARY KEY)", "INSERT INTO p VALUES (1)"},
		[]string{"DROP TABLE p", "CREATE TABLE p (id INT PRIMARY KEY)", "INSERT INTO p VALUES (2)"}, true},
	"a table that is emptied": {
		[]string{"CREATE TABLE p (id INT PRIMARY KEY)", "INSERT INTO p VALUES (1)"},
		[]string{"TRUNCATE TABLE p", "INSERT INTO p VALUES (2)"}, true},
	"another name for a table that was read": {
		[]string{"CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)"},
		[]string{"RENAME TABLE a TO z", "CREATE TABLE a (id INT)", "DROP TABLE z"}, false},
}

// TestRenames reads databases while names are given to other tables. What is read under a name is that of the table that
// had it at the beginning, or the copy begins again.
func TestRenames(t *testing.T) {
	t.Parallel()
	for name, one := range renames {
		for _, dumps := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, dump %t", name, dumps), func(t *testing.T) {
				eachServer(t, func(t *testing.T, f *fixture) {
					f.exec(f.source, filled("a_big", "(id INT PRIMARY KEY, f VARCHAR(255))", "n, REPEAT('x', 250)", 5000)...)
					f.exec(f.source, one.create...)
					var once sync.Once
					o := transfer.Options{ChunkBytes: chunkBytes, Workers: 1, Progress: func(done, _ uint64) {
						if done > 1<<20 { // bytes, of the first chunk of a_big
							once.Do(func() { f.exec(f.source, one.during...) })
						}
					}}
					err := f.copyOrRestore(dumps, o)
					require.Equal(t, errors.Is(err, transfer.ErrChanged), one.again, "the tables changed: %v", err)
					if one.again {
						f.must(f.copyOrRestore(dumps, o))
						f.expectCopied()
					}
				})
			})
		}
	}
}

// copyOrRestore copies the source, or loads a dump of it.
func (f *fixture) copyOrRestore(dumped bool, o transfer.Options) error {
	if !dumped {
		return transfer.Copy(f.t.Context(), f.from, f.to, o)
	}
	d, err := dumps.Of(f.t.Context(), f.from, o)
	if err != nil {
		return err
	}
	return transfer.Load(f.t.Context(), d.Schema, d.Parts, f.to, o)
}
