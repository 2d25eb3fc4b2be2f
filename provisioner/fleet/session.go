package fleet

import (
	"context"
	"errors"
	"fmt"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/store"
)

// Lock is a session lock to take: see mysqladmin.Server.Lock.
type Lock struct {
	Key   string
	Alive func() error // for mysqladmin.Server.Lock
	Adds  bool         // the session only adds, which is allowed during a store.Hold too

	organization string // of the instance, on a shared server
}

// Session is an administrator's session that holds a session lock until it is closed. Whoever takes the same lock in
// the meantime ends the session.
type Session struct {
	*mysqladmin.Session
	attended context.Context
	stop     func()
	own      *mysqladmin.Server // of this session alone; nil for a shared server
}

// OpenSession opens a session on an instance's server, unless the server knows more than PostgreSQL: see Verified. The
// error wraps mysqladmin.ErrSilent if the server hangs.
func (f *Fleet) OpenSession(ctx context.Context, i store.Instance, lock Lock) (opened *Session, err error) {
	if i.Location.Shared() {
		server, err := f.Shared.Server(i.Location.Server)
		if err != nil {
			return nil, err
		}
		lock.organization = i.OrganizationGUID
		return f.openSession(ctx, server.Server, i.Location, lock)
	}
	e, err := f.recordedEndpoint(ctx, i)
	if err != nil {
		return nil, err
	}
	err = WithAdminPassword(ctx, f.store, i, func(password string) error {
		admin, err := f.open(i.Location, e, password)
		if err != nil {
			return err
		}
		if opened, err = f.openSession(ctx, admin, i.Location, lock); err != nil {
			return errors.Join(err, admin.Close())
		}
		opened.own = admin
		return nil
	})
	return opened, err
}

func (f *Fleet) openSession(ctx context.Context, admin *mysqladmin.Server, at store.Location,
	lock Lock) (*Session, error) {
	s := &Session{}
	s.attended, s.stop = admin.Attend(ctx)
	allowed := func(from mysqladmin.MarkReader) error {
		err := f.Verified(s.attended, at, from)
		if err != nil && !(lock.Adds && errors.Is(err, store.ErrHeld)) {
			return fmt.Errorf("compare PostgreSQL with the server: %w", err)
		}
		return nil
	}
	var err error
	if s.Session, err = admin.LockIf(s.attended, lock.Key, lock.organization, allowed,
		lock.Alive); err != nil {
		err = s.Explain(fmt.Errorf("take the session lock: %w", err))
		s.stop()
		return nil, err
	}
	return s, nil
}

// Context is for the work in the session. It ends with the cause mysqladmin.ErrSilent when the server hangs.
func (s *Session) Context() context.Context { return s.attended }

// Explain wraps an error in mysqladmin.ErrSilent if the server hangs.
func (s *Session) Explain(err error) error {
	if err == nil || context.Cause(s.attended) != mysqladmin.ErrSilent {
		return err
	}
	return fmt.Errorf("%w: %w", mysqladmin.ErrSilent, err)
}

// Close releases the lock. It also closes the connections to a dedicated server.
func (s *Session) Close() error {
	s.stop()
	err := s.Session.Close()
	if s.own != nil {
		err = errors.Join(err, s.own.Close())
	}
	return err
}

// RefusesPassword reports whether the server of an instance refuses the recorded password of a binding. A server that
// does not answer refuses nothing.
func (f *Fleet) RefusesPassword(ctx context.Context, i store.Instance, b store.Binding) (refused bool) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	_ = f.AsAdmin(ctx, i, func(admin *mysqladmin.Server) error {
		db, err := admin.OpenDatabase(i.Database, &mysqladmin.Login{User: b.Account, Password: b.Password})
		if err != nil {
			return err
		}
		defer db.Close()
		refused = mysqladmin.AccessDenied(db.PingContext(ctx))
		return nil
	})
	return refused
}
