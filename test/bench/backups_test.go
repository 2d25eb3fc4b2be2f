package bench

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

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
		from := newInstance(b, testdrive.Start(b, env), "shared-large")
		from.broker.Do(b, "PUT", from.path(), from.body(nil)).Expect(b, http.StatusCreated)
		database := from.bind(b).Database
		fill(b, open(b, s, database), database)
		backUp := func() time.Duration { return from.operate(b, "PATCH", parameters(from, "backup", "now"), backupPoll) }
		restore := func() time.Duration {
			to := from
			to.id = uuid.NewString()
			took := to.operate(b, "PUT", parameters(to, "restore_from", from.id), backupPoll)
			to.broker.Do(b, "DELETE", to.path()+"?"+to.query(), nil).Expect(b, http.StatusOK)
			return took
		}
		write := timed(b, func() error { return writeFile(filepath.Join(dir, "raw")) })
		b.Run("backup", func(b *testing.B) { compare(b, backUp, write) })
		b.Run("restore", func(b *testing.B) {
			backUp()
			compare(b, restore, write)
		})
		from.broker.Do(b, "DELETE", from.path()+"?"+from.query(), nil).Expect(b, http.StatusOK)
	})
}

func parameters(i instance, name, value string) map[string]any {
	return i.body(map[string]any{"parameters": map[string]any{name: value}})
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
