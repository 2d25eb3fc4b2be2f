package bench

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	tablesToFill = 4
	rowBytes     = 190 // about, with indexes
	chunkRows    = 100_000
)

// tableToFill has what applications have: numbers, dates, texts, and three indexes.
const tableToFill = `CREATE TABLE %s (id BIGINT AUTO_INCREMENT PRIMARY KEY, customer INT NOT NULL,
	placed DATETIME NOT NULL, amount DECIMAL(10,2) NOT NULL, state ENUM('open', 'paid', 'sent') NOT NULL, note VARCHAR(200), KEY (customer),
	KEY (placed))`

// fillStatement inserts rows that do not compress to nothing.
const fillStatement = `INSERT INTO %s (customer, placed, amount, state, note)
	SELECT 1 + RAND() * 100000, '2024-01-01' + INTERVAL RAND() * 30000000 SECOND, RAND() * 10000, 1 + RAND() * 2,
	CONCAT(SHA2(RAND(), 256), ' ', LEFT(SHA2(RAND(), 256), RAND() * 30)) FROM %s LIMIT %d`

// fill fills a database with -mib.
func fill(b *testing.B, db *sql.DB, database string) {
	b.Helper()
	rows := *mebibytes << 20 / rowBytes / tablesToFill
	for n := range tablesToFill {
		table := fmt.Sprintf("%s.orders_%d", database, n)
		execute(b, db, fmt.Sprintf(tableToFill, table))
		from := "(SELECT 1) AS one"
		for made := 0; made < rows; {
			more := min(max(made, 1), rows-made, chunkRows)
			execute(b, db, fmt.Sprintf(fillStatement, table, from, more))
			from, made = table, made+more
		}
		execute(b, db, "ANALYZE TABLE "+table)
	}
}

func execute(b *testing.B, db *sql.DB, statement string) {
	b.Helper()
	_, err := db.ExecContext(b.Context(), statement)
	require.NoError(b, err, statement)
}
