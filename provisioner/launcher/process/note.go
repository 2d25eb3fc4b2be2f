package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/process/files"
)

// notes are those of brokers. Launcher has its methods.
type notes struct{ place place }

func (p place) noteFile(name string) (string, error) {
	if err := launcher.CheckNoteName(name); err != nil {
		return "", err
	}
	return filepath.Join(p.notesDir(), name), nil
}

// WriteNote implements launcher.Launcher.
func (n notes) WriteNote(ctx context.Context, name string, content []byte) error {
	path, err := n.place.noteFile(name)
	if err != nil {
		return err
	}
	if err := n.exclusively(ctx, func() error { return files.Replace(path, content, 0o600) }); err != nil {
		return fmt.Errorf("write a note: %w", err)
	}
	return nil
}

// Record implements launcher.Launcher. It does not wait for the server's lock, which an upgrade keeps for hours.
func (n notes) Record(ctx context.Context, id, text string) error {
	sd, err := n.place.server(id)
	if err != nil {
		return err
	}
	if err := n.exclusively(ctx, func() error {
		if text == "" {
			if _, err := os.Stat(sd.dir); err != nil {
				return err
			}
			return os.RemoveAll(sd.recordFile())
		}
		return files.Replace(sd.recordFile(), []byte(text), 0o600)
	}); errors.Is(err, fs.ErrNotExist) {
		return launcher.ErrNotFound
	} else if err != nil {
		return fmt.Errorf("server %s: write its record: %w", id, err)
	}
	return nil
}

// Records implements launcher.Launcher.
func (n notes) Records(context.Context) (map[string]string, error) {
	dirs, err := n.place.servers()
	records := map[string]string{}
	for _, sd := range dirs {
		text, err := os.ReadFile(sd.recordFile())
		if err == nil {
			records[sd.id] = string(text)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("server %s: read its record: %w", sd.id, err)
		}
	}
	return records, err
}

// exclusively runs fn while no other broker writes a note or a record.
func (n notes) exclusively(ctx context.Context, fn func() error) error {
	if err := os.MkdirAll(n.place.notesDir(), 0o700); err != nil {
		return err
	}
	unlock, err := lockDir(ctx, n.place.notesDir())
	if err != nil {
		return err
	}
	defer unlock()
	return fn()
}

// ReadNote implements launcher.Launcher.
func (n notes) ReadNote(_ context.Context, name string) ([]byte, error) {
	path, err := n.place.noteFile(name)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read a note: %w", err)
	}
	return content, nil
}
