// Package binlogs keeps binary logs in memory, as the broker archives them, and replays them.
package binlogs

import (
	"bytes"
	"context"

	"mysql-broker/provisioner/binlog"
)

// Archive is what binlog.Dump has read.
type Archive struct {
	files []file
	At    binlog.Position // where it ends
}

type file struct {
	at     binlog.Position
	format []byte
	events bytes.Buffer
}

func (a *Archive) last() *file { return &a.files[len(a.files)-1] }

// Begin begins a file, as binlog.Dump asks of it like of what follows.
func (a *Archive) Begin(_ context.Context, at binlog.Position) error {
	a.files = append(a.files, file{at: at})
	return nil
}

// Format keeps the event that describes the format of the file.
func (a *Archive) Format(event []byte) error {
	a.last().format = bytes.Clone(event)
	return nil
}

// Next keeps all events in memory.
func (a *Archive) Next(context.Context, int64) error { return nil }

func (a *Archive) Write(p []byte) (int, error) { return a.last().events.Write(p) }

// End records where a round ended.
func (a *Archive) End(_ context.Context, at binlog.Position) error {
	a.At = at
	return nil
}

// Replay repeats what was archived, up to a part's end.
func (a *Archive) Replay(ctx context.Context, r *binlog.Replay, part binlog.Part) error {
	for i := range a.files {
		f := &a.files[i]
		if i == 0 {
			if err := r.Begin(ctx, f.at); err != nil {
				return err
			}
			r.Format(f.format)
		} else if err := r.NextFile(f.at.File); err != nil {
			return err
		}
		if _, err := r.Read(ctx, &f.events, part); err != nil {
			return err
		}
	}
	if err := r.End(); err != nil {
		return err
	}
	return r.AdvanceSequences(ctx)
}
