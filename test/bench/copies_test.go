package bench

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/transfer"
	"mysql-broker/test/audit"
	"mysql-broker/test/platform"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

const (
	copyFrom = "bench_from"
	copyTo   = "bench_to"

	copyWorkers = 2 // as the broker copies
)

// BenchmarkCopies compares copies of a database, including the comparison of all rows by checksums, with the programs
// for that, which compare nothing.
func BenchmarkCopies(b *testing.B) {
	onEach(b, func(b *testing.B, s servers.MySQL) {
		admin, from, to := open(b, s, ""), open(b, s, copyFrom), open(b, s, copyTo)
		b.Cleanup(func() {
			for _, database := range []string{copyFrom, copyTo} {
				_, _ = admin.Exec("DROP DATABASE IF EXISTS " + database)
			}
		})
		testdrive.Exec(b, admin, "CREATE DATABASE "+copyFrom)
		fill(b, from, copyFrom)
		intoNew := func(do func() error) func() time.Duration {
			return func() time.Duration {
				testdrive.Exec(b, admin, "DROP DATABASE IF EXISTS "+copyTo)
				testdrive.Exec(b, admin, "CREATE DATABASE "+copyTo)
				return timed(b, do)()
			}
		}
		copied := intoNew(func() error {
			return transfer.Copy(b.Context(), transfer.Source{Rows: from, Programs: from, Database: copyFrom},
				transfer.Target{DB: to, Database: copyTo}, transfer.Options{Workers: copyWorkers})
		})
		options := clientOptions(b, s)
		b.Run("piped_dump", func(b *testing.B) {
			compare(b, copied, intoNew(func() error { return pipeDump(b, s.Flavour, options) }))
		})
		b.Run("mydumper", func(b *testing.B) {
			if _, err := exec.LookPath("mydumper"); err != nil {
				b.Skip("install mydumper")
			}
			compare(b, copied, intoNew(func() error { return mydump(b, options) }))
		})
	})
}

// open opens a database, or none if it is "", as the server's administrator.
func open(b *testing.B, s servers.MySQL, database string) *sql.DB {
	db, err := audit.Credentials{Host: s.Host, Port: s.Port, Username: s.User, Password: s.Password, Database: database,
		CACertificate: s.CA}.Open()
	require.NoError(b, err)
	b.Cleanup(func() { _ = db.Close() })
	return db
}

// clientOptions writes the file by which programs of a flavour log in, so that no password is among their arguments.
func clientOptions(b *testing.B, s servers.MySQL) (path string) {
	text := fmt.Sprintf("[client]\nhost=%s\nport=%d\nuser=%s\npassword=%s\n", s.Host, s.Port, s.User, s.Password)
	if s.Flavour == mysqld.MariaDB { // MySQL's programs use TLS where they can
		text += "ssl\n"
	}
	path = filepath.Join(b.TempDir(), "client.cnf")
	require.NoError(b, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// dumpPrograms are a flavour's dump program with its options, and its client.
var dumpPrograms = map[string]struct {
	dump, client string
	options      []string
}{
	mysqld.MySQL:   {"mysqldump", "mysql", []string{"--set-gtid-purged=OFF"}},
	mysqld.MariaDB: {dump: "mariadb-dump", client: "mariadb"},
}

// pipeDump pipes a dump of one database into the other one.
func pipeDump(b *testing.B, flavour, options string) error {
	programs := dumpPrograms[flavour]
	arguments := append([]string{"--defaults-file=" + options, "--single-transaction", "--routines", "--triggers",
		"--no-tablespaces"}, append(programs.options, copyFrom)...)
	dump := exec.CommandContext(b.Context(), testdrive.ClientProgram(b, flavour, programs.dump), arguments...)
	load := exec.CommandContext(b.Context(), testdrive.ClientProgram(b, flavour, programs.client),
		"--defaults-file="+options, copyTo)
	text, err := dump.StdoutPipe()
	if err != nil {
		return err
	}
	load.Stdin = text
	load.Stderr, dump.Stderr = os.Stderr, os.Stderr
	if err := dump.Start(); err != nil {
		return err
	}
	err = load.Run()
	return errors.Join(err, text.Close(), dump.Wait()) // a dump that nobody reads would wait for ever
}

// mydump has as many threads as the broker's copy has workers.
func mydump(b *testing.B, options string) error {
	dir, threads := filepath.Join(filepath.Dir(options), "mydumper"), fmt.Sprintf("--threads=%d", copyWorkers)
	run(b, "mydumper", "--defaults-file="+options, threads, "--database="+copyFrom, "--outputdir="+dir, "--rows=50000",
		"--trx-consistency-only", "--ssl")
	run(b, "myloader", "--defaults-file="+options, threads, "--database="+copyTo, "--directory="+dir, "--enable-binlog",
		"--ssl")
	return os.RemoveAll(dir)
}

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

func fill(b *testing.B, db *sql.DB, database string) {
	rows := *mebibytes << 20 / rowBytes / tablesToFill
	for n := range tablesToFill {
		table := fmt.Sprintf("%s.orders_%d", database, n)
		testdrive.Exec(b, db, fmt.Sprintf(tableToFill, table))
		from := "(SELECT 1) AS one"
		for made := 0; made < rows; {
			more := min(max(made, 1), rows-made, chunkRows)
			testdrive.Exec(b, db, fmt.Sprintf(fillStatement, table, from, more))
			from, made = table, made+more
		}
		testdrive.Exec(b, db, "ANALYZE TABLE "+table)
	}
}

const backupPoll = 50 * time.Millisecond

// backupTimes are those of the latest backup.
const backupTimes = `SELECT extract(epoch FROM finished_at - created_at), extract(epoch FROM verified_at - finished_at)
	FROM backup ORDER BY created_at DESC LIMIT 1`

// BenchmarkBackups measures a backup, its verification, a restore into a new instance and a copy of the instance. Each
// compares all rows by checksums. The object store is a directory. peak-MiB is how much memory the broker has needed
// for one of them, in addition to what it had before the first.
func BenchmarkBackups(b *testing.B) {
	onEach(b, func(b *testing.B, s servers.MySQL) {
		env := environment(b, s)
		env["BACKUP_STORE"] = "file://" + b.TempDir()
		broker := testdrive.Start(b, env)
		from := newClient(b, broker, "shared-large", backupPoll)
		require.NoError(b, errors.Join(from.provision(), from.bind()))
		c, err := from.account()
		require.NoError(b, err)
		fill(b, open(b, s, c.Database), c.Database)
		records := connect(b, env["DATABASE_URL"])
		into := func(request func(id, from string) platform.Request) float64 {
			to := uuid.NewString()
			took := timed(b, func() error { return from.run(request(to, from.id)) })()
			require.NoError(b, from.run(from.plan.Deprovision(to)))
			return took.Seconds()
		}
		idle := memoryOf(b, broker, "VmRSS")
		measure := func(round int) map[string]float64 {
			require.NoError(b, from.run(from.plan.BackUp(from.id)))
			var backup, verification, restore, clone float64
			require.NoError(b, records.QueryRow(b.Context(), backupTimes).Scan(&backup, &verification))
			if round%2 == 0 {
				restore, clone = into(from.plan.Restore), into(from.plan.Clone)
			} else {
				clone, restore = into(from.plan.Clone), into(from.plan.Restore)
			}
			return map[string]float64{"backup-s": backup, "verification-s": verification, "restore-s": restore,
				"copy-s": clone, "restore/copy": restore / clone, "verification/restore": verification / restore}
		}
		measure(0) // warms up
		measured := map[string][]float64{}
		for round := 0; b.Loop(); round++ {
			for unit, value := range measure(round) {
				measured[unit] = append(measured[unit], value)
			}
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(memoryOf(b, broker, "VmHWM")-idle, "peak-MiB")
		for unit, values := range measured {
			b.ReportMetric(median(values), unit)
		}
		require.NoError(b, from.deprovision())
	})
}

// memoryOf reads how many MiB a broker has, or has had at most.
func memoryOf(b *testing.B, broker *testdrive.Broker, which string) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", broker.PID()))
	require.NoError(b, err)
	_, value, _ := strings.Cut(string(text), which+":")
	var kibibytes float64
	_, err = fmt.Sscan(value, &kibibytes)
	require.NoError(b, err)
	return kibibytes / 1024
}
