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

// The key of a note's content, and that of the content compressed by gzip, if it is long. A note has one of them.
const (
	noteKey       = "content"
	compressedKey = "content.gz"
)

// longNote is from which length on a note is compressed. Brokers before 0.2.0 can read shorter ones.
const longNote = 512 << 10

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
	note := secret{APIVersion: "v1", Kind: "Secret", Metadata: metadata{Name: notePrefix + name,
		Labels: map[string]string{managedByLabel: managedBy}}, Data: map[string][]byte{noteKey: append([]byte{}, content...)}}
	if len(content) >= longNote {
		var compressed bytes.Buffer
		to := gzip.NewWriter(&compressed)
		if _, err := to.Write(content); err != nil {
			return err
		}
		if err := to.Close(); err != nil {
			return err
		}
		note.Data = map[string][]byte{compressedKey: compressed.Bytes()}
	}
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
	compressed, long := note.Data[compressedKey]
	if !long {
		return append([]byte{}, note.Data[noteKey]...), nil
	}
	from, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, fmt.Errorf("read a note: %w", err)
	}
	content, err := io.ReadAll(from)
	if err != nil {
		return nil, fmt.Errorf("read a note: %w", err)
	}
	return content, nil
}
