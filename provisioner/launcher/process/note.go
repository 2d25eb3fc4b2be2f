package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"mysql-broker/provisioner/launcher"
)

func (l *Launcher) notesDir() string { return filepath.Join(l.cfg.Dir, "notes") }

func (l *Launcher) noteFile(name string) (string, error) {
	if err := launcher.CheckNoteName(name); err != nil {
		return "", err
	}
	return filepath.Join(l.notesDir(), name), nil
}

// WriteNote implements launcher.Launcher.
func (l *Launcher) WriteNote(ctx context.Context, name string, content []byte) error {
	path, err := l.noteFile(name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(l.notesDir(), 0o700); err != nil {
		return fmt.Errorf("write a note: %w", err)
	}
	unlock, err := lockDir(ctx, l.notesDir())
	if err != nil {
		return fmt.Errorf("write a note: %w", err)
	}
	defer unlock()
	if err := replaceFile(path, content, 0o600); err != nil {
		return fmt.Errorf("write a note: %w", err)
	}
	return nil
}

// ReadNote implements launcher.Launcher.
func (l *Launcher) ReadNote(_ context.Context, name string) ([]byte, error) {
	path, err := l.noteFile(name)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read a note: %w", err)
	}
	return content, nil
}
