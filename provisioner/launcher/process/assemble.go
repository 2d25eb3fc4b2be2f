package process

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
	"golang.org/x/sys/unix"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/periodic"
)

const (
	groupInterval = time.Second // how often groups are looked at
	memberTime    = 3 * time.Second
	joinTime      = 30 * time.Second
)

// memberConn is a connection to a member of a group, as mysqld.GroupUser.
type memberConn struct {
	ctx  context.Context
	conn *sql.Conn
}

func (c memberConn) exec(statements ...string) error {
	for _, statement := range statements {
		if _, err := c.conn.ExecContext(c.ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// memberLook is what a member says of itself.
type memberLook struct {
	dir      serverDir
	missing  bool   // it has no data, or never became ready
	err      error  // why it does not respond; the rest is then empty
	state    string // as MySQL names it
	majority bool   // it sees most members of its group
	offline  bool   // it refuses applications
	executed string // transactions
	ports    string // of the members that it knows, joined by commas
}

func (m memberLook) online() bool { return m.state == "ONLINE" && m.majority }

// out reports whether a member responds and is in no group.
func (m memberLook) out() bool { return m.err == nil && (m.state == "OFFLINE" || m.state == "ERROR") }

// keepGroups looks after the groups until the context ends. What decides which member is the primary, and which ones
// belong to the group, is the group itself. The launcher lets members join that are in no group, replaces those that
// lost their data, and begins the group again if none is left.
func (l *Launcher) keepGroups(ctx context.Context) {
	var working sync.WaitGroup
	defer working.Wait()
	var kept sync.Map // of ids
	status := &periodic.Status{What: "looking after groups of servers", Log: l.cfg.Logger}
	periodic.Run(ctx, periodic.Schedule{Every: groupInterval}, status, func(ctx context.Context) error {
		all, err := l.launchedDirs()
		for _, sd := range all {
			if !sd.isGroup() {
				continue
			}
			if _, already := kept.LoadOrStore(sd.id, nil); already {
				continue
			}
			working.Go(func() {
				defer kept.Delete(sd.id)
				l.keepGroup(ctx, sd)
			})
		}
		return err
	})
}

// keepGroup looks after one group until that is not to be kept running any more.
func (l *Launcher) keepGroup(ctx context.Context, sd serverDir) {
	status := &periodic.Status{What: "looking after a group of servers", Log: l.cfg.Logger.With("server", sd.id)}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	periodic.Run(ctx, periodic.Schedule{Every: groupInterval}, status, func(ctx context.Context) error {
		lock, err := tryLock(sd.dir)
		if errors.Is(err, unix.EWOULDBLOCK) { // it is being launched or destroyed
			return nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			cancel()
			return nil
		}
		if err != nil {
			return err
		}
		defer lock.Close()
		st, err := sd.loadState()
		if err != nil || st.Phase != phaseReady {
			cancel()
			return nil
		}
		_, err = l.assemble(ctx, sd, st)
		return err
	})
}

// assemble looks at the members of a group once, and does what is due. It returns how many are online. The caller holds
// the lock of the group.
func (l *Launcher) assemble(ctx context.Context, sd serverDir, st state) (online int, err error) {
	all := l.lookAtMembers(ctx, sd, st)
	out := 0
	var silent []error
	for _, m := range all {
		switch {
		case m.online():
			online++
		case m.out():
			out++
		case m.err != nil:
			silent = append(silent, m.err)
		}
	}
	switch {
	case online > 0:
		return online, l.complete(ctx, sd, st, all)
	case out == len(all):
		return 0, l.beginGroup(ctx, all)
	case out+len(silent) == len(all):
		return 0, fmt.Errorf("no member is in a group, and only with all of them it can be told which one has every "+
			"transaction: %w", errors.Join(silent...))
	}
	return 0, nil // a member is joining, or about to find out that it has no majority
}

// complete has the members join that are in no group, although others are.
func (l *Launcher) complete(ctx context.Context, sd serverDir, st state, all []memberLook) error {
	var errs []error
	// One after the other: MySQL 9.7 may stop to commit if a member joins while another one recovers.
	joining := slices.ContainsFunc(all, func(m memberLook) bool { return m.state == "RECOVERING" })
	for n, m := range all {
		switch {
		case m.missing && st.Phase == phaseReady:
			errs = append(errs, l.replaceMember(ctx, sd, st, n+1))
		case m.out():
			if !joining && !knows(all, st.Group.Ports[n]) {
				joining = true
				errs = append(errs, l.join(ctx, m.dir))
			}
		case m.online() && m.offline: // since it was cut off
			errs = append(errs, l.onMember(ctx, m.dir, func(c memberConn) error {
				return c.exec("SET GLOBAL offline_mode=OFF")
			}))
		}
	}
	return errors.Join(errs...)
}

// knows reports whether a member that is online still knows one with that port, which was killed and cannot join yet.
func knows(all []memberLook, port int) bool {
	return slices.ContainsFunc(all, func(m memberLook) bool {
		return m.online() && slices.Contains(strings.Split(m.ports, ","), strconv.Itoa(port))
	})
}

// join lets a member join its group. If the server hangs meanwhile, it is killed, and then started again. A broker that
// died in beginGroup has left the member set to begin a group, which would be a second one.
func (l *Launcher) join(ctx context.Context, m serverDir) error {
	l.cfg.Logger.Info("a member joins its group", "server", m.id)
	err := l.onMember(ctx, m, func(c memberConn) error {
		return c.exec("STOP GROUP_REPLICATION", "SET GLOBAL group_replication_bootstrap_group=OFF",
			"START GROUP_REPLICATION")
	})
	hung, isError := errors.AsType[*mysql.MySQLError](err)
	if isError && hung.Number == errStarting || errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return errors.Join(err, l.stopIfRunning(ctx, m, (*server).kill))
	}
	return err
}

// errStarting is the number of the error "Another instance of START/STOP GROUP_REPLICATION command is executing".
const errStarting = 3663

// beginGroup begins the group with the member that has all transactions of all members. A transaction that was
// acknowledged is on the disk of the member that was the primary then.
func (l *Launcher) beginGroup(ctx context.Context, all []memberLook) error {
	for _, first := range all {
		has := true
		err := l.onMember(ctx, first.dir, func(c memberConn) error {
			for _, other := range all {
				var subset bool
				if err := c.conn.QueryRowContext(c.ctx, "SELECT GTID_SUBSET(?, ?)", other.executed,
					first.executed).Scan(&subset); err != nil {
					return err
				}
				has = has && subset
			}
			if !has {
				return nil
			}
			l.cfg.Logger.Info("a group is begun", "server", first.dir.id)
			begin := c.exec("STOP GROUP_REPLICATION", "SET GLOBAL group_replication_bootstrap_group=ON",
				"START GROUP_REPLICATION")
			return errors.Join(begin, c.exec("SET GLOBAL group_replication_bootstrap_group=OFF",
				"SET GLOBAL offline_mode=OFF"))
		})
		if has || err != nil {
			return err
		}
	}
	return errors.New("no member has the transactions of all others: an operator has to choose one")
}

// replaceMember starts a member that has lost its data from an empty directory. It gets the data from the others.
func (l *Launcher) replaceMember(ctx context.Context, sd serverDir, st state, n int) error {
	m := sd.member(n)
	lock, err := m.lockMember()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	program, err := l.programFor(sd, st)
	if err != nil {
		return err
	}
	l.cfg.Logger.Warn("a member of a group that has lost its data is replaced", "server", m.id)
	if err := l.launchMember(ctx, sd, st, n, program, nil, func() {}); err != nil {
		return err
	}
	return l.memberReady(m)
}

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
	if st, err := m.loadState(); errors.Is(err, launcher.ErrNotFound) || err == nil && st.Phase != of {
		look.missing, look.err = true, fmt.Errorf("server %s: %w", m.id, fs.ErrNotExist)
		return look
	}
	if _, err := os.Lstat(m.dataDir()); errors.Is(err, fs.ErrNotExist) {
		look.missing, look.err = true, err
		return look
	}
	ctx, cancel := context.WithTimeout(ctx, memberTime)
	defer cancel()
	look.err = l.onMember(ctx, m, func(c memberConn) error {
		err := c.conn.QueryRowContext(c.ctx, `SELECT COALESCE(MAX(IF(member_id = @@GLOBAL.server_uuid, member_state, NULL)),
				'OFFLINE'),
			COALESCE(SUM(member_state IN ('ONLINE', 'RECOVERING')), 0) * 2 > COUNT(*),
			@@GLOBAL.offline_mode, @@GLOBAL.gtid_executed, COALESCE(GROUP_CONCAT(member_port), '')
			FROM performance_schema.replication_group_members`).Scan(&look.state, &look.majority, &look.offline,
			&look.executed, &look.ports)
		look.executed = strings.ReplaceAll(look.executed, "\n", "")
		return err
	})
	return look
}

// onMember runs fn on a connection through the member's socket.
func (l *Launcher) onMember(ctx context.Context, m serverDir, fn func(memberConn) error) error {
	ctx, cancel := context.WithTimeout(ctx, joinTime)
	defer cancel()
	password, err := m.groupPassword()
	if err != nil {
		return fmt.Errorf("server %s: %w", m.id, err)
	}
	dir, err := os.Open(m.dataDir())
	if err != nil {
		return fmt.Errorf("server %s: %w", m.id, err)
	}
	defer dir.Close()
	cfg := socketLogin(dir)
	cfg.User, cfg.Passwd = mysqld.GroupUser, password
	cfg.InterpolateParams, cfg.Logger = true, &mysql.NopLogger{}
	cfg.Timeout = memberTime
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err == nil {
		defer conn.Close()
		err = fn(memberConn{ctx, conn})
	}
	if err != nil {
		return fmt.Errorf("server %s: %w", m.id, err)
	}
	return nil
}
