package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// leastLogMB is how many MiB of binary logs a member may keep, however small its plan is.
const leastLogMB = 64

// limitLogs has a member of a group delete its oldest binary logs when there is more of them than its plan has storage:
// applications could fill the disk of the host by changing the same rows for as long as the logs are kept. A member
// that still needs them gets a copy of all data instead.
func (l *Launcher) limitLogs(ctx context.Context, m serverDir, st state) error {
	logs, err := filepath.Glob(filepath.Join(m.dataDir(), "binlog.[0-9]*"))
	if err != nil {
		return err
	}
	slices.Sort(logs)
	left := int64(max(leastLogMB, st.StorageMB)) << 20
	for n, log := range slices.Backward(logs) {
		info, err := os.Stat(log)
		if errors.Is(err, fs.ErrNotExist) { // deleted in between, like those before
			return nil
		}
		if err != nil {
			return fmt.Errorf("server %s: %w", m.id, err)
		}
		if left -= info.Size(); left < 0 && n < len(logs)-1 {
			return l.onMember(ctx, m, func(c memberConn) error {
				return c.exec("PURGE BINARY LOGS TO '" + filepath.Base(logs[n+1]) + "'")
			})
		}
	}
	return nil
}
