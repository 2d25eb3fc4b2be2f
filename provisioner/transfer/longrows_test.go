package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	budget "mysql-broker/provisioner/memory"
	"mysql-broker/provisioner/transfer"
	"mysql-broker/test/dumps"
)

// A copy reserves memory for long rows only, gives it back, and refuses a table by name for whose rows there is too
// little.
func TestMemoryForLongRows(t *testing.T) {
	eachServer(t, func(t *testing.T, f *fixture) {
		f.exec(f.source, "CREATE TABLE short (id INT PRIMARY KEY, b LONGBLOB, j JSON)",
			"INSERT INTO short VALUES (1, REPEAT('x', 900000), '{}')",
			"CREATE TABLE huge (id INT PRIMARY KEY, b MEDIUMBLOB, c LONGTEXT)",
			"INSERT INTO huge VALUES (1, REPEAT(CHAR(0), 2 << 20), REPEAT('x', 1 << 20)), (2, 'y', NULL)")
		var held, most atomic.Int64
		o := transfer.Options{Reserve: func(_ context.Context, bytes int64) (func(), error) {
			most.Store(max(most.Load(), held.Add(bytes)))
			return func() { held.Add(-bytes) }, nil
		}}
		f.must(transfer.Copy(t.Context(), f.from, f.to, o))
		f.expectCopied()
		if row := int64(3<<20 + 64<<10); most.Load() != 7*row || held.Load() != 0 {
			t.Errorf("reserved %d bytes for a row of %d; %d are held", most.Load(), row, held.Load())
		}
		o.Reserve = func(context.Context, int64) (func(), error) { return nil, budget.ErrTooLarge }
		f.exec(f.copied, "DROP TABLE huge")
		err := transfer.Copy(t.Context(), f.from, f.to, o)
		refusal, ok := errors.AsType[*transfer.RefusedError](err)
		assert.True(t, ok && strings.Contains(refusal.Sentence, "Table huge has a row of 3 MiB"),
			"too little memory: %v", err)
	})
}

// A copy and a dump refuse a database whose definitions need more memory than they may have.
func TestMemoryForDefinitions(t *testing.T) {
	eachServer(t, func(t *testing.T, f *fixture) {
		o := transfer.Options{MaxDefinitions: 100 << 10}
		columns := make([]string, 60)
		for n := range columns {
			columns[n] = fmt.Sprintf("c%d INT COMMENT '%s'", n, strings.Repeat("x", 1000))
		}
		f.exec(f.source, "CREATE TABLE t ("+strings.Join(columns, ", ")+")")
		f.must(transfer.Copy(t.Context(), f.from, f.to, o))
		for kind, rest := range map[string]string{"TABLE": " LIKE t",
			"PROCEDURE": "() SELECT '" + strings.Repeat("x", 60<<10) + "'"} {
			f.exec(f.source, "CREATE "+kind+" another"+rest)
			_, dumping := dumps.Of(t.Context(), f.from, o)
			for _, err := range []error{dumping, transfer.Copy(t.Context(), f.from, f.to, o)} {
				refusal, ok := errors.AsType[*transfer.RefusedError](err)
				assert.True(t, ok && strings.HasPrefix(refusal.Sentence, "The definitions of the tables,"), "%s: %v", kind, err)
			}
			f.exec(f.source, "DROP "+kind+" another")
		}
	})
}
