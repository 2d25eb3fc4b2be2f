package kubernetes

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes/api"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/launcher/mysqlgroup"
)

const (
	memberTime = 3 * time.Second // to log in to a member, and to ask for its state
	joinTime   = 30 * time.Second
	beginTime  = time.Minute

	// logShare is the part of a member's volume that binary logs may take: one over this.
	logShare = 4
)

// assemble looks at the members of a group once, does what is due, and returns what it saw. Several brokers may do so
// at the same time: whoever changes a member locks it, and looks again.
func (l *Launcher) assemble(ctx context.Context, s *server) ([]mysqlgroup.Look, error) {
	all := l.look(ctx, s)
	return all, l.doDue(ctx, s, all)
}

// look looks at the members of a group, and remembers for Members what it saw.
func (l *Launcher) look(ctx context.Context, s *server) []mysqlgroup.Look {
	all := l.lookAtMembers(ctx, s)
	l.groups.Store(s.id, seenGroup{time.Now(), l.shownMembers(s, all)})
	return all
}

// doDue does what is due for a group whose members look like that.
func (l *Launcher) doDue(ctx context.Context, s *server, all []mysqlgroup.Look) error {
	due, err := mysqlgroup.Decide(all, mysqlgroup.Group{Addresses: l.membersOf(s).Addresses,
		MostLogs: int64(s.state.volumeMB()) << 20 / logShare})
	if err != nil {
		return &silentError{fmt.Errorf("server %s: %w", s.id, err)}
	}
	if due.Begin {
		return l.beginGroup(ctx, s)
	}
	var errs []error
	for _, n := range due.LetIn {
		errs = append(errs, l.onLocked(ctx, s.of(n+1), func(ctx context.Context, conn *sql.Conn, now mysqlgroup.Look) error {
			if !now.Online() {
				return nil
			}
			return mysqlgroup.LetIn(ctx, conn)
		}))
	}
	for n, oldest := range due.Purge {
		errs = append(errs, l.onMember(ctx, s.of(n+1), memberTime, func(ctx context.Context, conn *sql.Conn) error {
			return mysqlgroup.Purge(ctx, conn, oldest)
		}))
	}
	if due.Join >= 0 {
		errs = append(errs, l.join(ctx, s.of(due.Join+1)))
	}
	return errors.Join(errs...)
}

// undecidedError says why an operator has to begin a group.
type undecidedError struct{ error }

// silentError says that a group has no member, and that not all respond.
type silentError struct{ error }

// assembleFor is assemble for an operation, which waits for members that do not respond, or end meanwhile.
func (l *Launcher) assembleFor(ctx context.Context, s *server) ([]mysqlgroup.Look, error) {
	all, err := l.assemble(ctx, s)
	_, silent := errors.AsType[*silentError](err)
	if (silent || lost(err)) && ctx.Err() == nil {
		err = launcher.NotYet(groupPoll, "Starting mysqld")
	}
	return all, err
}

// lost reports whether a connection to a member ended, or was refused: another broker may have started it again.
func lost(err error) bool {
	_, refused := errors.AsType[*net.OpError](err)
	_, ofAPI := errors.AsType[*url.Error](err)
	return errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, driver.ErrBadConn) || refused && !ofAPI
}

func (l *Launcher) lookAtMembers(ctx context.Context, s *server) []mysqlgroup.Look {
	all := make([]mysqlgroup.Look, len(s.state.Group.Members))
	var looking sync.WaitGroup
	for n := range all {
		looking.Go(func() { all[n] = l.lookAtMember(ctx, s.of(n+1)) })
	}
	looking.Wait()
	return all
}

func (l *Launcher) lookAtMember(ctx context.Context, m *server) (look mysqlgroup.Look) {
	if err := l.onMember(ctx, m, memberTime, func(ctx context.Context, conn *sql.Conn) (err error) {
		look, err = mysqlgroup.Ask(ctx, conn)
		return err
	}); err != nil {
		look.Err = err
	}
	return look
}

// onMember runs fn on a connection to a member as mysqld.GroupUser.
func (l *Launcher) onMember(ctx context.Context, m *server, limit time.Duration,
	fn func(context.Context, *sql.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	db, err := l.openMember(m)
	if err != nil {
		return err
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err == nil {
		defer conn.Close()
		err = fn(ctx, conn)
	}
	if err != nil {
		return fmt.Errorf("server %s: %w", m.podName(), err)
	}
	return nil
}

func (l *Launcher) openMember(m *server) (*sql.DB, error) {
	password, err := m.groupPassword()
	if err != nil {
		return nil, err
	}
	e := m.ownEndpoint()
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(e.CACertificate)
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User, cfg.Passwd = "tcp", e.AdminAddress(), mysqld.GroupUser, password
	cfg.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trusted, ServerName: e.Host}
	cfg.InterpolateParams, cfg.Logger, cfg.Timeout = true, &mysql.NopLogger{}, memberTime
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// onLocked runs fn while no other broker changes a member, with what that says of itself then.
func (l *Launcher) onLocked(ctx context.Context, m *server,
	fn func(context.Context, *sql.Conn, mysqlgroup.Look) error) error {
	return l.onMember(ctx, m, joinTime, func(ctx context.Context, conn *sql.Conn) error {
		if err := mysqlgroup.Lock(ctx, conn); err != nil {
			return err
		}
		now, err := mysqlgroup.Ask(ctx, conn)
		if err != nil {
			return err
		}
		return fn(ctx, conn, now)
	})
}

// join lets a member join its group. If the server hangs, its pod is deleted, and another one follows.
func (l *Launcher) join(ctx context.Context, m *server) error {
	err := l.onLocked(ctx, m, func(ctx context.Context, conn *sql.Conn, now mysqlgroup.Look) error {
		if !now.Out() {
			return nil
		}
		l.cfg.Logger.Info("a member joins its group", "server", m.id, "member", m.at())
		fault.Point("group", "joins")
		return mysqlgroup.Join(ctx, conn)
	})
	if !mysqlgroup.Hung(ctx, err) {
		return err
	}
	return errors.Join(err, l.startAgain(ctx, m, outOrSilent))
}

func outOrSilent(now mysqlgroup.Look) bool { return now.Err != nil || now.Out() }

// startAgain deletes the pod of a member whose server hangs, so that another one follows. Such a server may also hang
// when it is asked to end. It does nothing unless hangs is true for another look at that pod's server: this broker may
// have been paused, or another one may have deleted the pod.
func (l *Launcher) startAgain(ctx context.Context, m *server, hangs func(now mysqlgroup.Look) bool) error {
	var p api.Pod
	if err := l.api.Get(ctx, l.api.Path(api.Pods, m.podName()), &p); err != nil {
		return err
	}
	if !hangs(l.lookAtMember(ctx, m)) {
		return nil
	}
	return l.deletePodIn(ctx, m, p, new(1))
}

// endStalled deletes the pod of a primary that is stalled, so that another member becomes the primary. began
// is when the look began.
func (l *Launcher) endStalled(ctx context.Context, g *keptGroup, all []mysqlgroup.Look, began time.Time) error {
	n := g.stall.Suspect(all, l.membersOf(g.server).Addresses, began)
	if n < 0 {
		return nil
	}
	m, lacks := g.server.of(n+1), true
	if !all[n].Silent() {
		if err := l.onMember(ctx, m, memberTime, func(ctx context.Context, conn *sql.Conn) (err error) {
			lacks, err = mysqlgroup.LacksApplied(ctx, conn, all[n], all)
			return err
		}); err != nil || !lacks {
			return err
		}
	}
	return l.startAgain(ctx, m, func(now mysqlgroup.Look) bool {
		stays := all[n].Stays(now) && all[n].Executed == now.Executed
		if stays {
			l.cfg.Logger.Warn("restarting a primary that commits nothing any more", "server", m.id, "member", m.at())
		}
		return stays
	})
}

// endStuck deletes the pod of a member that hangs, so that it starts again. began is when the look began.
func (l *Launcher) endStuck(ctx context.Context, g *keptGroup, all []mysqlgroup.Look, began time.Time) error {
	n := g.stuck.Next(all, l.membersOf(g.server).Addresses, began)
	if n < 0 {
		return nil
	}
	m := g.server.of(n + 1)
	return l.startAgain(ctx, m, func(now mysqlgroup.Look) bool {
		if !all[n].Stays(now) {
			return false
		}
		l.cfg.Logger.Warn("restarting a member that gets no further", "server", m.id, "member", m.at(),
			"reason", now.State, "error", now.Err)
		return true
	})
}

// beginGroup begins a group that has no member, with the one that has all transactions of all members. It locks all
// members, so that no other broker begins it elsewhere.
func (l *Launcher) beginGroup(ctx context.Context, s *server) error {
	ctx, cancel := context.WithTimeout(ctx, beginTime)
	defer cancel()
	var conns []*sql.Conn
	var all []mysqlgroup.Look
	for _, m := range s.members() {
		db, err := l.openMember(m)
		if err != nil {
			return err
		}
		defer db.Close()
		conn, err := db.Conn(ctx)
		if err != nil {
			return fmt.Errorf("server %s: %w", m.podName(), err)
		}
		defer conn.Close()
		if err := mysqlgroup.Lock(ctx, conn); err != nil {
			return fmt.Errorf("server %s: %w", m.podName(), err)
		}
		conns = append(conns, conn)
	}
	for n, conn := range conns {
		now, err := mysqlgroup.Ask(ctx, conn)
		if err != nil {
			return fmt.Errorf("server %s: %w", s.of(n+1).podName(), err)
		}
		all = append(all, now)
	}
	if slices.ContainsFunc(all, func(m mysqlgroup.Look) bool { return !m.Out() }) { // another broker was faster
		return nil
	}
	if s.state.Phase == phaseReady {
		if err := mysqlgroup.LostData(all); err != nil {
			return &undecidedError{fmt.Errorf("server %s: %w", s.id, err)}
		}
	}
	for _, n := range mysqlgroup.BeginOrder(all) {
		conn, m := conns[n], s.of(n+1)
		has, err := mysqlgroup.HasAll(ctx, conn, all[n], all)
		if err == nil && has {
			l.cfg.Logger.Info("a group is begun", "server", s.id, "member", m.at())
			fault.Point("group", "begins")
			err = mysqlgroup.Begin(ctx, conn)
		}
		if mysqlgroup.Hung(ctx, err) {
			err = errors.Join(err, l.startAgain(ctx, m, outOrSilent))
		}
		if err != nil {
			return fmt.Errorf("server %s: %w", m.podName(), err)
		}
		if has {
			return nil
		}
	}
	return &undecidedError{fmt.Errorf("server %s: %w", s.id, mysqlgroup.ErrNoneHasAll)}
}
