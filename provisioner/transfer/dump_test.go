package transfer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/transfer"
	"mysql-broker/test/dumps"
)

// dump dumps the source.
func (f *fixture) dump(o transfer.Options) dumps.Dump {
	d, err := dumps.Of(f.t.Context(), f.from, o)
	f.must(err)
	return d
}

// TestDumpAndLoad dumps every kind of object and value, and loads it, also over a copy that differs and after a
// failure.
func TestDumpAndLoad(t *testing.T) {
	eachServer(t, func(t *testing.T, f *fixture) {
		f.createEverything()
		f.exec(f.source, filled("many", "(id BIGINT PRIMARY KEY, filler CHAR(255) NOT NULL)", "n, REPEAT('x', 255)", 4096)...)
		// Keys that are no text of UTF-8.
		f.exec(f.source, "CREATE TABLE hashed (id BINARY(16) PRIMARY KEY, filler CHAR(255) NOT NULL)",
			"INSERT INTO hashed SELECT LEFT(UNHEX(SHA2(id, 256)), 16), filler FROM many",
			"CREATE TABLE german (id VARCHAR(20) CHARACTER SET latin1 PRIMARY KEY, filler CHAR(255) NOT NULL)",
			"INSERT INTO german SELECT CONCAT('ß', id), filler FROM many", "ANALYZE TABLE hashed, german")
		d := f.dump(transfer.Options{ChunkBytes: chunkBytes})
		cut, lost := d.Parts, errors.New("the connection is lost")
		for n, p := range d.Parts {
			if p.Chunks[0].Table == "many" && p.Chunks[0].From != "" {
				cut = slices.Clone(d.Parts)
				cut[n].Read = func(context.Context, func(int, []byte) error) error { return lost }
			}
		}
		o := transfer.Options{ChunkBytes: chunkBytes, Workers: 2, Events: true}
		err := transfer.Load(t.Context(), d.Schema, cut, f.to, o)
		_, ofSource := errors.AsType[*transfer.SourceError](err)
		require.True(t, ofSource && errors.Is(err, lost), "a dump that cannot be read: %v", err)
		f.must(transfer.Load(t.Context(), d.Schema, d.Parts, f.to, o))
		f.compare()
		f.exec(f.copied, "DELETE FROM many WHERE id % 1000 = 7", "INSERT INTO many VALUES (-5, 'z')", "DROP TABLE times",
			"DELETE FROM child", "INSERT INTO numbers (id) VALUES (5000)", "INSERT INTO commented (v) VALUES (1), (2)",
			"DELETE FROM hashed LIMIT 9", "DELETE FROM german LIMIT 9")
		d = f.dump(transfer.Options{ChunkBytes: chunkBytes}) // comparing took values of sequences
		f.must(transfer.Load(t.Context(), d.Schema, d.Parts, f.to, o))
		f.compare()

		d.Parts[0].Chunks[0].Sum = "1 1"
		assert.ErrorIs(t, transfer.Load(t.Context(), d.Schema, d.Parts, f.to, o), transfer.ErrDiffers,
			"rows that differ from the sums of the dump")
	})
}

// TestTypesInJSON copies documents with values of MySQL's types that JSON text cannot express.
func TestTypesInJSON(t *testing.T) {
	eachServer(t, func(t *testing.T, f *fixture) {
		f.exec(f.source, "CREATE TABLE orders (id INT PRIMARY KEY, j JSON)", "INSERT INTO orders VALUES (1, JSON_OBJECT("+
			"'price', 1.10, 'day', DATE'2024-02-29', 'at', TIMESTAMP'2024-02-29 12:00:00.5')), (2, NULL), (3, JSON_OBJECT('price', -2.00))")
		d := f.dump(transfer.Options{ChunkBytes: chunkBytes})
		expectSame := func() {
			f.expectSame("SELECT id, JSON_EXTRACT(j, '$.price') + 0 AS price, JSON_UNQUOTE(JSON_EXTRACT(j, '$.day')) AS day, " +
				"JSON_UNQUOTE(JSON_EXTRACT(j, '$.at')) AS at FROM orders ORDER BY id")
		}
		for range 2 { // also over the rows of the copy
			f.must(transfer.Copy(t.Context(), f.from, f.to, transfer.Options{ChunkBytes: chunkBytes}))
			expectSame()
			f.must(transfer.Load(t.Context(), d.Schema, d.Parts, f.to, transfer.Options{ChunkBytes: chunkBytes, Workers: 2}))
			expectSame()
		}
		f.exec(f.copied, `UPDATE orders SET j = '{"price": 1.2}' WHERE id = 1`)
		f.must(transfer.Copy(t.Context(), f.from, f.to, transfer.Options{ChunkBytes: chunkBytes}))
		expectSame()
	})
}

// TestCollationsOfParameters loads a procedure of a dump that has other names of collations.
func TestCollationsOfParameters(t *testing.T) {
	eachServer(t, func(t *testing.T, f *fixture) {
		if f.mariaDB {
			return // has no collations of parameters
		}
		f.exec(f.source, "CREATE PROCEDURE p(a VARCHAR(9) CHARACTER SET utf8mb3) SELECT a")
		raw, err := json.Marshal(f.dump(transfer.Options{}).Schema)
		f.must(err)
		load := func(collation string, leftOut func(string, bool, error) bool) error {
			var read transfer.Schema
			f.must(json.Unmarshal(bytes.ReplaceAll(raw, []byte("utf8mb3_general_ci"), []byte(collation)), &read))
			return transfer.Load(t.Context(), read, nil, f.to, transfer.Options{LeftOut: leftOut})
		}
		f.must(load("utf8_general_ci", nil)) // as MySQL has named it before 8.0.30
		f.expectSame("SELECT collation_name FROM information_schema.parameters WHERE specific_schema = DATABASE()")
		refusal, _ := errors.AsType[*transfer.RefusedError](load("latin1_danish_ci", nil))
		assert.True(t, refusal != nil && strings.Contains(refusal.Sentence, "the parameters of the procedure p"), "%v", refusal)
		var left []string
		f.must(load("latin1_danish_ci", func(program string, broken bool, _ error) bool {
			left = append(left, fmt.Sprint(program, broken))
			return true
		}))
		assert.Equal(t, []string{"procedure pfalse"}, left)
	})
}

// TestMovedForeignKey completes the move of a table with a foreign key to a table that does not exist; on MariaDB, also
// without a key. It is interrupted before each statement.
func TestMovedForeignKey(t *testing.T) {
	eachServer(t, func(t *testing.T, f *fixture) {
		interrupted := errors.New("interrupted")
		for n, err := 0, interrupted; err != nil; n++ {
			f.exec(f.source, "CREATE TABLE child (up INT, CONSTRAINT c FOREIGN KEY (up) REFERENCES missing (id))")
			if f.mariaDB {
				f.exec(f.source, "ALTER TABLE child DROP KEY c")
			}
			want := f.all(f.source, "SHOW CREATE TABLE child")
			schema := f.dump(transfer.Options{}).Schema
			f.exec(f.source, "RENAME TABLE child TO "+f.to.Database+".child")
			calls := 0
			err = transfer.LoadPrograms(t.Context(), schema, f.to, f.from.Database, transfer.Options{Alive: func() error {
				if calls++; calls > n {
					return interrupted
				}
				return nil
			}})
			require.True(t, err == nil || errors.Is(err, interrupted), "%v", err)
			f.must(transfer.LoadPrograms(t.Context(), schema, f.to, f.from.Database, transfer.Options{}))
			require.Equal(t, want, f.all(f.copied, "SHOW CREATE TABLE child"), "interrupted after %d statements", n)
			f.exec(f.copied, "DROP TABLE child")
		}
	})
}
