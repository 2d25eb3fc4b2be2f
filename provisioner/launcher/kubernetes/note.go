package kubernetes

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"

	"mysql-broker/provisioner/launcher"
)

// Notes are Secrets that no pod mounts. No server has a name with a dot.
const notePrefix = "note."

// noteKey is the key of a note's content, compressed by gzip.
const noteKey = "content.gz"

func notePath(c *client, name string) (string, error) {
	if err := launcher.CheckNoteName(name); err != nil {
		return "", err
	}
	return c.path(secrets, notePrefix+name), nil
}

// WriteNote implements launcher.Launcher. A note may have up to 1 MiB when it is compressed, as a Secret may.
func (l *Launcher) WriteNote(ctx context.Context, name string, content []byte) error {
	path, err := notePath(l.api, name)
	if err != nil {
		return err
	}
	var compressed bytes.Buffer
	to := gzip.NewWriter(&compressed)
	if _, err := to.Write(content); err != nil {
		return err
	}
	if err := to.Close(); err != nil {
		return err
	}
	note := secret{APIVersion: "v1", Kind: "Secret", Metadata: metadata{Name: notePrefix + name,
		Labels: map[string]string{managedByLabel: managedBy}}, Data: map[string][]byte{noteKey: compressed.Bytes()}}
	if err := l.api.apply(ctx, path, note, nil); err != nil {
		return fmt.Errorf("write a note: %w", err)
	}
	return nil
}

// ReadNote implements launcher.Launcher.
func (l *Launcher) ReadNote(ctx context.Context, name string) ([]byte, error) {
	path, err := notePath(l.api, name)
	if err != nil {
		return nil, err
	}
	var note secret
	err = l.api.get(ctx, path, &note)
	if isNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read a note: %w", err)
	}
	from, err := gzip.NewReader(bytes.NewReader(note.Data[noteKey]))
	if err != nil {
		return nil, fmt.Errorf("read a note: %w", err)
	}
	content, err := io.ReadAll(from)
	if err != nil {
		return nil, fmt.Errorf("read a note: %w", err)
	}
	return content, nil
}
