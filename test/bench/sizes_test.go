package bench

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

const (
	databasesToSize = 10
	tablesToSize    = 2000 // in each
)

// BenchmarkSizes compares measuring one of several databases by its files with the server's own estimate.
func BenchmarkSizes(b *testing.B) {
	onEach(b, func(b *testing.B, s servers.MySQL) {
		admin, database := open(b, s, ""), ""
		for n := range databasesToSize {
			database = fmt.Sprintf("bench_%d", n)
			b.Cleanup(func() { _, _ = admin.Exec(fmt.Sprintf("DROP DATABASE IF EXISTS bench_%d", n)) })
			testdrive.Exec(b, admin, "CREATE DATABASE "+database)
			for table := range tablesToSize {
				testdrive.Exec(b, admin, fmt.Sprintf("CREATE TABLE %s.t%d (id INT PRIMARY KEY, note VARCHAR(50), KEY (note))",
					database, table))
			}
		}
		estimating, err := admin.Conn(b.Context())
		require.NoError(b, err)
		defer estimating.Close()
		_, err = estimating.ExecContext(b.Context(), "SET SESSION lock_wait_timeout = 2 "+
			"/*!80000 , information_schema_stats_expiry = 0 */") // MySQL keeps estimates for a day
		require.NoError(b, err)
		server, err := mysqladmin.Open(mysqladmin.Config{Name: s.Flavour, Addr: s.Address(), User: s.BrokerUser,
			Password: s.BrokerPassword, CA: []byte(s.CA)})
		require.NoError(b, err)
		b.Cleanup(func() { _ = server.Close() })
		compare(b, timed(b, func() error {
			_, err := server.Sizes.Of(b.Context(), database)
			return err
		}), timed(b, func() error {
			return estimating.QueryRowContext(b.Context(), "SELECT SUM(data_length + index_length + data_free) "+
				"FROM information_schema.tables WHERE table_schema = ?", database).Scan(new(float64))
		}))
	})
}
