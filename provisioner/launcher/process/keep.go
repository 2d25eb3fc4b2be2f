package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Keep implements launcher.Launcher. The record is a file next to the state, which older brokers ignore.
func (l *Launcher) Keep(ctx context.Context, id string) error {
	sd, err := l.serverDir(id)
	if err != nil {
		return err
	}
	if kept, err := sd.kept(); kept || err != nil {
		return err
	}
	unlock, err := sd.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	const why = "This server was reported ready. It may hold data that the broker's records do not know of.\n"
	if err := replaceFile(sd.keptFile(), []byte(why), 0o600); err != nil {
		return explainNoRoom(fmt.Errorf("server %s: record that it is to be kept: %w", id, err))
	}
	return nil
}

// kept reports whether Keep was called for the server.
func (d serverDir) kept() (bool, error) {
	_, err := os.Lstat(d.keptFile())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("server %s: %w", d.id, err)
	}
	return true, nil
}
