package shared

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/periodic"
)

// watchInterval is how often Watch refills the connections in reserve, and checks servers again that could not be used.
const watchInterval = 10 * time.Second

// privilegesInterval is how often Watch checks the privileges of the broker's account, which can be revoked, and the
// server's settings, which can be changed.
const privilegesInterval = 10 * time.Minute

// lockInterval is how often Watch looks for locks that tenants of a cluster hold.
const lockInterval = time.Second

// Watch checks every server once before it returns, and then repeatedly until ctx ends. It is no error if a server does
// not respond, the broker's account lacks privileges or a setting is missing: placements avoid the server until that is
// fixed.
func (s *Servers) Watch(ctx context.Context, log *slog.Logger) {
	s.eachServer(func(server *Server) { server.refresh(ctx, log) })
	go periodic.Loop(ctx, watchInterval, func(ctx context.Context) time.Duration {
		s.eachServer(func(server *Server) { server.refresh(ctx, log) })
		return watchInterval
	})
	for _, server := range s.all {
		if !server.IsCluster() {
			continue
		}
		// Not in the loop above, which a server that hangs holds up, nor while an operation is in progress only: a lock
		// soon keeps the other tenants from committing too.
		status := &periodic.Status{What: "the search for locks of tenants", Log: log.With("server", server.Name())}
		go periodic.Loop(ctx, lockInterval, func(ctx context.Context) time.Duration {
			status.Report(ctx, server.endLocks(ctx, log))
			return lockInterval
		})
	}
}

// endLocks ends sessions that keep a node of a cluster from applying what it has received, and logs that.
func (s *Server) endLocks(ctx context.Context, log *slog.Logger) error {
	all, err := s.Cluster.EndLocks(ctx)
	for _, ended := range all {
		log.Warn("sessions of tenants on a node of the cluster were ended, because a lock kept it from applying "+
			"changes", "server", s.Name(), "member", ended.Node, "count", ended.Sessions, "databases", ended.Databases)
	}
	return err
}

// eachServer runs fn for all servers at once and waits.
func (s *Servers) eachServer(fn func(*Server)) {
	var all sync.WaitGroup
	for _, server := range s.all {
		all.Go(func() { fn(server) })
	}
	all.Wait()
}

// refresh refills the connections in reserve, logs what a server is as soon as that is known, and logs what is wrong
// with it each time that changes.
func (s *Server) refresh(ctx context.Context, log *slog.Logger) {
	err := s.keepReserve(ctx)
	if err == nil && time.Since(s.privileged) >= privilegesInterval {
		if err = s.checkTransport(ctx); err == nil {
			err = s.checkPrivileges(ctx)
		}
		if err == nil {
			s.privileged = time.Now()
		}
	}
	if err == nil && !s.introduced {
		err = s.introduce(ctx, log)
	}
	if err == nil {
		err = s.Cluster.EndStaleSessions(ctx)
	}
	if ctx.Err() != nil {
		return
	}
	if mysqladmin.CannotReach(err) {
		s.doubted.Store(true)
	} else if err == nil && s.doubted.Load() { // placements avoid it, so nothing else would notice that it responds
		s.doubted.Store(s.Ping(ctx) != nil)
	}
	s.recommend(log)
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	if problem == s.logged {
		return
	}
	s.logged = problem
	lacking, unprivileged := errors.AsType[*mysqladmin.PrivilegesError](err)
	unset, unsafe := errors.AsType[*mysqladmin.SettingsError](err)
	if unsafe {
		log.Error("shared server gets no instances: one tenant could take it down; put these lines into its option file, "+
			"and restart it", "server", s.Name(), "lines", mysqladmin.Lines(unset.Missing))
	}
	switch {
	case unprivileged:
		log.Error("shared server gets no instances: the broker's account lacks privileges; run these statements there "+
			"as an administrator", "server", s.Name(), "statements", lacking.Missing)
	case err != nil && !unsafe:
		log.Warn("shared server cannot be used just now", "server", s.Name(), "error", err)
	case err == nil && s.introduced:
		log.Info("shared server can be used again", "server", s.Name())
	}
}

// recommend logs which recommended settings are missing, each time that this changes.
func (s *Server) recommend(log *slog.Logger) {
	missing := s.recommended.Load()
	if missing == nil {
		return // not checked yet
	}
	lines := mysqladmin.Lines(*missing)
	if slices.Equal(lines, s.advised) {
		return
	}
	s.advised = lines
	if len(lines) > 0 {
		log.Warn("settings that keep tenants apart are missing on the shared server; docs/security.md and docs/ha.md say "+
			"what for", "server", s.Name(), "lines", lines)
	}
}

// Usable reports whether the broker's account had all privileges, and the server the required settings, at the last
// check.
func (s *Server) Usable() bool { return s.usable.Load() }

// doubt returns 1 if the server did not respond the last time, otherwise 0.
func (s *Server) doubt() int {
	if s.doubted.Load() {
		return 1
	}
	return 0
}

// Check returns an error unless the broker's account has all privileges that it needs on the server and the server has
// the required settings. If the server is known to be usable, Check only pings it: an instance must not wait for one
// server while another responds.
func (s *Server) Check(ctx context.Context) error {
	if s.Usable() {
		err := s.Ping(ctx)
		s.doubted.Store(err != nil)
		return err
	}
	if err := s.keepReserve(ctx); err != nil {
		return err
	}
	return s.checkPrivileges(ctx)
}

// checkPrivileges updates whether the server is usable, unless it does not respond.
func (s *Server) checkPrivileges(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.AnswerTime)
	defer cancel()
	err := s.Setup.CheckPrivileges(ctx)
	_, lacking := errors.AsType[*mysqladmin.PrivilegesError](err)
	if err != nil && !lacking {
		return err
	}
	recommended, errSettings := s.Setup.CheckSettings(ctx)
	_, unset := errors.AsType[*mysqladmin.SettingsError](errSettings)
	if errSettings == nil || unset {
		s.recommended.Store(&recommended)
		s.usable.Store(!lacking && !unset)
	}
	return errors.Join(err, errSettings)
}

func (s *Server) keepReserve(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.AnswerTime)
	defer cancel()
	return s.KeepReserve(ctx)
}

// introduce logs what a server is, and warns of connections that are not verified.
func (s *Server) introduce(ctx context.Context, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, s.AnswerTime)
	defer cancel()
	flavour, err := s.Flavour(ctx)
	if err != nil {
		return err
	}
	s.introduced = true
	log.Info("shared server", "server", s.Name(), "flavour", flavour.Name, "version", flavour.Version,
		"tls", s.Admin.CA != nil, "tls_only", s.TLSOnly(), "max_databases", s.MaxDatabases)
	switch {
	case s.Admin.CA != nil:
	case !s.WithoutTLS():
		log.Warn("the shared server offers TLS, but nothing verifies its certificate, and credentials say nothing of "+
			"TLS; give its CA as ca_certificate", "server", s.Name())
	default:
		log.Warn("connections to the shared server, those of applications included, are not encrypted",
			"server", s.Name())
	}
	return nil
}
