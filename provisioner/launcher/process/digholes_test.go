package process_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher/mysqld"
)

// A server that does nothing takes up no more disk than what it has written, but for its redo log, which is there.
func TestEmptyServersAreSmall(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		cfg := newConfig(t, binary)
		l := open(t, cfg)
		defer l.Close()
		spec := newSpec("small")
		launch(t, l, spec)
		data := filepath.Join(cfg.Dir, "instances", spec.ID, "data")
		redo, wantRedo, most := "ib_logfile0", int64(4<<20), int64(20<<20)
		if binary.Flavour == mysqld.MySQL {
			redo, wantRedo, most = "#innodb_redo", 60<<20, 104<<20
		}
		got := allocated(t, filepath.Join(data, redo))
		assert.True(t, got >= wantRedo, "%d bytes are allocated to the redo log, want %d", got, wantRedo)
		got = allocated(t, data)
		assert.True(t, got <= most, "%d bytes are allocated to an empty server, want at most %d", got, most)
	})
}

// allocated is the space that the files of a directory, or one file, take up on the disk.
func allocated(t *testing.T, path string) (bytes int64) {
	t.Helper()
	err := filepath.WalkDir(path, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			bytes += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return err
	})
	require.NoError(t, err)
	return bytes
}
