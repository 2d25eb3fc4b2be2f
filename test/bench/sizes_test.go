package bench

import (
	"fmt"
	"sync"
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

// BenchmarkSizes compares measuring one of several databases by its files with the server's own estimate, and measuring
// all of them, as near their quotas, by one scan with a scan for each. Its server ends faster than it drops tables.
func BenchmarkSizes(b *testing.B) {
	onEach(b, func(b *testing.B, one servers.MySQL) {
		s := testdrive.PrivateWith(b, one.Flavour, "innodb_flush_log_at_trx_commit=0")
		server, err := mysqladmin.Open(mysqladmin.Config{Name: s.Flavour, Addr: s.Address(), User: s.BrokerUser,
			Password: s.BrokerPassword, CA: []byte(s.CA)})
		require.NoError(b, err)
		b.Cleanup(func() { _ = server.Close() })
		admin, databases := open(b, s, ""), make([]string, databasesToSize)
		var creating sync.WaitGroup
		for n := range databases {
			databases[n] = fmt.Sprintf("%sbench_%d", mysqladmin.DatabasePrefix, n)
			testdrive.Exec(b, admin, "CREATE DATABASE "+databases[n])
			creating.Go(func() {
				for table := range tablesToSize {
					testdrive.Exec(b, admin, fmt.Sprintf("CREATE TABLE %s.t%d (id INT PRIMARY KEY, note VARCHAR(50), KEY (note))",
						databases[n], table))
				}
			})
		}
		creating.Wait()
		estimating, err := admin.Conn(b.Context())
		require.NoError(b, err)
		defer estimating.Close()
		_, err = estimating.ExecContext(b.Context(), "SET SESSION lock_wait_timeout = 2 "+
			"/*!80000 , information_schema_stats_expiry = 0 */") // MySQL keeps estimates for a day
		require.NoError(b, err)
		measure := func(database string) error {
			_, err := server.Sizes.Of(b.Context(), database)
			return err
		}
		b.Run("one", func(b *testing.B) {
			compare(b, timed(b, func() error { return measure(databases[0]) }), timed(b, func() error {
				return estimating.QueryRowContext(b.Context(), "SELECT SUM(data_length + index_length + data_free) "+
					"FROM information_schema.tables WHERE table_schema = ?", databases[0]).Scan(new(float64))
			}))
		})
		b.Run("all", func(b *testing.B) {
			compare(b, timed(b, func() error {
				files, err := server.Sizes.Files(b.Context())
				for _, database := range databases {
					if err == nil {
						_, err = server.Sizes.OfFiles(b.Context(), database, files[database])
					}
				}
				return err
			}), timed(b, func() error {
				for _, database := range databases {
					if err := measure(database); err != nil {
						return err
					}
				}
				return nil
			}))
		})
	})
}
