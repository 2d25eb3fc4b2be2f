package kubernetes

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"

	"mysql-broker/provisioner/launcher"
)

// Notes are Secrets that no pod mounts. No server has a name with a dot.
const notePrefix = "note."

// The key of a note's content, and that of the content compressed by gzip, if it is long. A note has one of them, or
// partsKey.
const (
	noteKey       = "content"
	compressedKey = "content.gz"
)

const (
	// longNote is from which length on a note is compressed. Brokers before 0.2.0 can read shorter ones.
	longNote = 512 << 10

	// notePart is how much of a compressed note is in one Secret, which has room for 1 MiB.
	// https://kubernetes.io/docs/concepts/configuration/secret/#restriction-data-size
	notePart = 768 << 10
)

func notePath(c *client, name string) string { return c.path(secrets, notePrefix+name) }

func noteSecret(name string, data map[string][]byte) secret {
	return secret{APIVersion: "v1", Kind: "Secret", Data: data,
		Metadata: metadata{Name: notePrefix + name, Labels: map[string]string{managedByLabel: managedBy}}}
}

// WriteNote implements launcher.Launcher.
func (l *Launcher) WriteNote(ctx context.Context, name string, content []byte) error {
	if err := launcher.CheckNoteName(name); err != nil {
		return err
	}
	if err := l.writeNote(ctx, name, content); err != nil {
		return fmt.Errorf("write the note %s: %w", name, err)
	}
	return nil
}

func (l *Launcher) writeNote(ctx context.Context, name string, content []byte) error {
	var former secret
	if err := l.api.get(ctx, notePath(l.api, name), &former); err != nil && !isNotFound(err) {
		return err
	}
	before, err := readParts(former)
	if err != nil {
		return err
	}
	data, rest := map[string][]byte{noteKey: append([]byte{}, content...)}, []byte(nil)
	if len(content) >= longNote {
		compressed, err := compress(content)
		if err != nil {
			return err
		}
		if data = map[string][]byte{compressedKey: compressed}; len(compressed) > notePart {
			data, rest = map[string][]byte{}, compressed
		}
	}
	if rest == nil && len(before.Sets) == 0 {
		return l.api.apply(ctx, notePath(l.api, name), noteSecret(name, data), nil)
	}
	return l.writeParts(ctx, name, former, before, data, rest)
}

// ReadNote implements launcher.Launcher.
func (l *Launcher) ReadNote(ctx context.Context, name string) ([]byte, error) {
	if err := launcher.CheckNoteName(name); err != nil {
		return nil, err
	}
	content, err := l.readNote(ctx, name, "")
	if err != nil {
		return nil, fmt.Errorf("read the note %s: %w", name, err)
	}
	return content, nil
}

// readNote returns an error if a part is missing from the note of that version.
func (l *Launcher) readNote(ctx context.Context, name, damaged string) ([]byte, error) {
	var note secret
	if err := l.api.get(ctx, notePath(l.api, name), &note); isNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if content, whole := note.Data[noteKey]; whole {
		return append([]byte{}, content...), nil
	}
	if compressed, whole := note.Data[compressedKey]; whole {
		return decompress(compressed)
	}
	if note.Metadata.ResourceVersion == damaged {
		return nil, fmt.Errorf("%w: delete the Secret %s, and brokers write it again", errDamaged, note.Metadata.Name)
	}
	compressed, err := l.readRest(ctx, name, note)
	if errors.Is(err, errDamaged) { // another broker may have replaced the note meanwhile
		return l.readNote(ctx, name, note.Metadata.ResourceVersion)
	}
	if err != nil {
		return nil, err
	}
	return decompress(compressed)
}

func compress(content []byte) ([]byte, error) {
	var compressed bytes.Buffer
	to := gzip.NewWriter(&compressed)
	_, err := to.Write(content)
	if err := errors.Join(err, to.Close()); err != nil {
		return nil, err
	}
	return compressed.Bytes(), nil
}

func decompress(compressed []byte) ([]byte, error) {
	from, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(from)
}
