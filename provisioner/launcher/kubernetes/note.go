package kubernetes

import (
	"context"
	"fmt"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes/api"
)

// Notes are Secrets that no pod mounts. No server has a name with a dot.
const notePrefix = "note."

const noteKey = "content"

// WriteNote implements launcher.Launcher.
func (l *Launcher) WriteNote(ctx context.Context, name string, content []byte) error {
	if err := launcher.CheckNoteName(name); err != nil {
		return err
	}
	note := api.Secret{APIVersion: "v1", Kind: "Secret", Data: map[string][]byte{noteKey: append([]byte{}, content...)},
		Metadata: api.Metadata{Name: notePrefix + name, Labels: map[string]string{managedByLabel: managedBy}}}
	if err := l.secrets.api.Apply(ctx, l.secrets.api.Path(api.Secrets, notePrefix+name), note, nil); err != nil {
		return fmt.Errorf("write the note %s: %w", name, err)
	}
	return nil
}

// ReadNote implements launcher.Launcher.
func (l *Launcher) ReadNote(ctx context.Context, name string) ([]byte, error) {
	if err := launcher.CheckNoteName(name); err != nil {
		return nil, err
	}
	var note api.Secret
	if err := l.secrets.api.Get(ctx, l.secrets.api.Path(api.Secrets, notePrefix+name), &note); api.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read the note %s: %w", name, err)
	}
	content, there := note.Data[noteKey]
	if !there {
		return nil, nil
	}
	return append([]byte{}, content...), nil
}

// Record implements launcher.Launcher. The record is an annotation of the server's Secret, which pods do not see.
func (l *Launcher) Record(ctx context.Context, id, text string) error {
	s, err := l.secrets.find(ctx, id)
	if err == nil {
		err = l.secrets.change(ctx, s, func(s *server) { s.secret.Metadata.Annotations[recordAnnotation] = text })
	}
	if err != nil {
		return fmt.Errorf("server %s: write its record: %w", id, err)
	}
	return nil
}

// Records implements launcher.Launcher.
func (l *Launcher) Records(ctx context.Context) (map[string]string, error) {
	records := map[string]string{}
	err := l.secrets.each(ctx, func(id string, m api.Metadata) {
		if text := m.Annotations[recordAnnotation]; text != "" {
			records[id] = text
		}
	})
	return records, err
}
