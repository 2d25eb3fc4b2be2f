package bench

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

const backupPoll = 50 * time.Millisecond

// BenchmarkBackups compares backups, and restores into new instances with all checksums compared, with writing a file
// of the same size beside the object store, which is a directory, and syncing it once.
func BenchmarkBackups(b *testing.B) {
	onEach(b, func(b *testing.B, s servers.MySQL) {
		dir := b.TempDir()
		env := environment(b, s)
		env["BACKUP_STORE"] = "file://" + b.TempDir()
		from := newClient(b, testdrive.Start(b, env), "shared-large", backupPoll)
		require.NoError(b, errors.Join(from.provision(), from.bind()))
		c, err := from.account()
		require.NoError(b, err)
		fill(b, open(b, s, c.Database), c.Database)
		backUp := timed(b, func() error { return from.run(from.plan.BackUp(from.id)) })
		restore := func() time.Duration {
			to := uuid.NewString()
			took := timed(b, func() error { return from.run(from.plan.Restore(to, from.id)) })()
			require.NoError(b, from.run(from.plan.Deprovision(to)))
			return took
		}
		write := timed(b, func() error { return writeFile(filepath.Join(dir, "raw")) })
		b.Run("backup", func(b *testing.B) { compare(b, backUp, write) })
		b.Run("restore", func(b *testing.B) {
			backUp()
			compare(b, restore, write)
		})
		require.NoError(b, from.deprovision())
	})
}

// writeFile writes -mib into a file, and removes it.
func writeFile(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	block := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	for range *mebibytes {
		if _, err = file.Write(block); err != nil {
			break
		}
	}
	return errors.Join(err, file.Sync(), file.Close(), os.Remove(path))
}
