package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"

	"mysql-broker/provisioner/launcher"
)

// memberLook is what a member says of itself.
type memberLook struct {
	dir      serverDir
	missing  bool   // it has no data, or never became ready
	down     bool   // it does not run; known of Galera only
	err      error  // why it does not respond; the rest is then empty
	state    string // as MySQL names it
	majority bool   // it sees most members of its group
	primary  bool
	queue    int    // transactions that it has received and not applied yet
	offline  bool   // it refuses applications
	executed string // transactions
	ports    string // of the members that it knows, joined by commas
}

func (m memberLook) online() bool { return m.state == "ONLINE" && m.majority }

// out reports whether a member responds and is in no group.
func (m memberLook) out() bool { return m.err == nil && (m.state == "OFFLINE" || m.state == "ERROR") }

func countOnline(all []memberLook) (online int) {
	for _, m := range all {
		if m.online() {
			online++
		}
	}
	return online
}

func allOnline(all []memberLook) bool { return countOnline(all) == len(all) }

func (l *Launcher) lookAtMembers(ctx context.Context, sd serverDir, st state) []memberLook {
	all := make([]memberLook, len(st.Group.Ports))
	var looking sync.WaitGroup
	for n := range all {
		looking.Go(func() { all[n] = l.lookAtMember(ctx, sd.member(n+1), st.Phase) })
	}
	looking.Wait()
	return all
}

func (l *Launcher) lookAtMember(ctx context.Context, m serverDir, of phase) memberLook {
	look := memberLook{dir: m}
	st, err := m.loadState()
	if errors.Is(err, launcher.ErrNotFound) || err == nil && st.Phase != of {
		look.missing, look.err = true, fmt.Errorf("server %s: %w", m.id, fs.ErrNotExist)
		return look
	}
	if _, err := os.Lstat(m.dataDir()); errors.Is(err, fs.ErrNotExist) {
		look.missing, look.err = true, err
		return look
	}
	ctx, cancel := context.WithTimeout(ctx, memberTime)
	defer cancel()
	if st.inGalera() {
		l.lookAtGalera(ctx, &look)
		return look
	}
	look.err = l.onMember(ctx, m, func(c memberConn) error {
		err := c.conn.QueryRowContext(c.ctx, `SELECT COALESCE(MAX(IF(member_id = @@GLOBAL.server_uuid, member_state, NULL)),
				'OFFLINE'),
			COALESCE(SUM(member_state IN ('ONLINE', 'RECOVERING')), 0) * 2 > COUNT(*),
			COALESCE(MAX(member_id = @@GLOBAL.server_uuid AND member_role = 'PRIMARY'), 0),
			(SELECT COALESCE(SUM(count_transactions_in_queue + count_transactions_remote_in_applier_queue), 0)
				FROM performance_schema.replication_group_member_stats WHERE member_id = @@GLOBAL.server_uuid),
			@@GLOBAL.offline_mode, @@GLOBAL.gtid_executed, COALESCE(GROUP_CONCAT(member_port), '')
			FROM performance_schema.replication_group_members`).Scan(&look.state, &look.majority, &look.primary, &look.queue,
			&look.offline, &look.executed, &look.ports)
		look.executed = strings.ReplaceAll(look.executed, "\n", "")
		return err
	})
	return look
}
