package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// galeraAlone is the state of a member of Galera that has no majority, or does not take part yet.
const galeraAlone = "ALONE"

// lookAtGalera asks a member of Galera for its state. One that starts has no socket yet.
func (l *Launcher) lookAtGalera(ctx context.Context, look *memberLook) {
	s, err := searchProcesses(look.dir, l.owner)
	if err != nil {
		look.Err = err
		return
	}
	if s == nil {
		look.down, look.Err = true, fmt.Errorf("server %s: it does not run", look.dir.id)
		return
	}
	s.close()
	if _, err := os.Lstat(filepath.Join(look.dir.dataDir(), socketName)); errors.Is(err, fs.ErrNotExist) {
		look.State = "RECOVERING"
		return
	}
	status := map[string]string{}
	look.Err = l.onMember(ctx, look.dir, func(c memberConn) error {
		rows, err := c.conn.QueryContext(c.ctx, `SHOW GLOBAL STATUS WHERE Variable_name IN
			('wsrep_ready', 'wsrep_local_state', 'wsrep_cluster_status', 'wsrep_local_recv_queue', 'wsrep_last_committed')`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var name, value string
			if err := rows.Scan(&name, &value); err != nil {
				return err
			}
			status[name] = value
		}
		if err := rows.Err(); err != nil {
			return err
		}
		return c.conn.QueryRowContext(c.ctx, `SELECT COUNT(*) > 0 FROM information_schema.processlist
			WHERE user = 'system user' AND state LIKE 'Waiting for % lock'`).Scan(&look.blocked)
	})
	if look.Err != nil {
		return
	}
	look.Queue, _ = strconv.Atoi(status["wsrep_local_recv_queue"])
	look.Executed = status["wsrep_last_committed"]
	look.Majority = status["wsrep_cluster_status"] == "Primary"
	// It has all data: it is synchronized, or gives its data to another member.
	complete := slices.Contains([]string{"2", "4"}, status["wsrep_local_state"])
	switch {
	case look.Majority && status["wsrep_ready"] == "ON" && complete:
		look.State, look.Primary = "ONLINE", true
	case look.Majority:
		look.State = "RECOVERING"
	default:
		look.State = galeraAlone
	}
}
