package mark

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/store"
)

// Arrive records beside the data of an instance that it is at a location from now on. Otherwise the next mark would,
// within a minute: if PostgreSQL were lost before, the former place would seem to be the right one.
func Arrive(ctx context.Context, s *store.Store, f *fleet.Fleet, c store.InstanceCopy, at store.Location) error {
	return record(ctx, s, f, c.Database, at, func(identity string) (string, error) {
		var about any = c
		if at.Dedicated() {
			about = serverRecord{identity, c}
		}
		text, err := json.Marshal(about)
		return string(text), err
	})
}

// Leave undoes Arrive.
func Leave(ctx context.Context, s *store.Store, f *fleet.Fleet, database string, at store.Location) error {
	return record(ctx, s, f, database, at, nil)
}

// record records a text about an instance at a location, or removes it.
func record(ctx context.Context, s *store.Store, f *fleet.Fleet, database string, at store.Location,
	about func(identity string) (string, error)) error {
	m, err := s.Recovery.Mark(ctx)
	if err != nil {
		return fmt.Errorf("read the high-water mark: %w", err)
	}
	text := ""
	if about != nil {
		if text, err = about(m.Identity); err != nil {
			return err
		}
	}
	if at.Dedicated() {
		l, err := f.Launcher(at.Launcher)
		if err == nil {
			err = l.Record(ctx, at.Server, text)
		}
		if text == "" && errors.Is(err, launcher.ErrNotFound) {
			err = nil
		}
		return err
	}
	server, err := f.Shared.Server(at.Server)
	if err != nil {
		return err
	}
	if text == "" {
		return server.Marks.Unlist(ctx, m.Identity, database)
	}
	return server.Marks.ListInstances(ctx, m.Identity, []mysqladmin.ListedInstance{{Database: database, About: text}})
}
