package kubernetes

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes/api"
)

var (
	validID   = regexp.MustCompile(`^[a-z]([a-z0-9_]{0,30}[a-z0-9])?$`)
	validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
)

// objectName returns the name of all objects of a server. It differs for each id, because ids contain no dash.
func objectName(id string) (string, error) {
	if !validID.MatchString(id) {
		return "", fmt.Errorf("server id %q: want 1 to 32 lower-case letters, digits and underscores, a letter first and "+
			"no underscore last", id)
	}
	return strings.ReplaceAll(id, "_", "-"), nil
}

const (
	managedByLabel   = "app.kubernetes.io/managed-by"
	serverLabel      = "mysql-broker/server" // the id
	managedBy        = "mysql-broker"
	stateAnnotation  = "mysql-broker/state"
	keptAnnotation   = "mysql-broker/kept"
	recordAnnotation = "mysql-broker/record" // see Record

	// SHA-256 fingerprints of certificates in the Secret, and of the one that mysqld has loaded.
	caAnnotation          = "mysql-broker/ca"                 // the CA that signed the certificate
	trustedAnnotation     = "mysql-broker/trusted"            // the CAs that clients must trust
	certificateAnnotation = "mysql-broker/certificate"        // the certificate
	loadedAnnotation      = "mysql-broker/loaded-certificate" // the certificate that mysqld uses

	expiresAnnotation = "mysql-broker/certificate-expires"
)

// serversSelector selects the Secrets of servers.
const serversSelector = managedByLabel + "=" + managedBy + "," + serverLabel

func labelsOf(id string) map[string]string {
	return map[string]string{"app.kubernetes.io/name": "mysqld", managedByLabel: managedBy, serverLabel: id}
}

// expectLabels returns an error if an object of a server lacks a label by which the launcher lists it.
// Webhooks and policies of the cluster may change what the launcher creates.
func (s *server) expectLabels(kind string, m api.Metadata) error {
	for _, key := range []string{managedByLabel, serverLabel} {
		if wanted := labelsOf(s.id)[key]; m.Labels[key] != wanted {
			return &launcher.Error{Action: launcher.GiveUp, Sentence: noServers,
				Err: fmt.Errorf("server %s: the label %s of %s %s has become %q, and must stay %q: exempt the servers' namespace "+
					"from the webhook or MutatingAdmissionPolicy that changes it", s.id, key, kind, m.Name, m.Labels[key], wanted)}
		}
	}
	return nil
}

// secrets are those of the servers: their settings, keys and state.
type secrets struct{ api *api.Client }

// find reads the Secret of a server. It returns launcher.ErrNotFound if there is none or it is being deleted.
func (c secrets) find(ctx context.Context, id string) (*server, error) {
	s, err := c.load(ctx, id)
	if err == nil && !s.secret.Metadata.DeletionTimestamp.IsZero() {
		err = launcher.ErrNotFound
	}
	return s, err
}

// load is find, but also returns servers that are being destroyed.
func (c secrets) load(ctx context.Context, id string) (*server, error) {
	name, err := objectName(id)
	if err != nil {
		return nil, err
	}
	s := &server{id: id, name: name}
	err = c.api.Get(ctx, c.api.Path(api.Secrets, name), &s.secret)
	if api.IsNotFound(err) {
		return s, launcher.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("server %s: %w", id, err)
	}
	foreign := s.secret.Metadata.AppliedAt().IsZero() // it may be a copy of another server's
	if of := s.secret.Metadata.Labels[serverLabel]; of != id && (of != "" && foreign || s.readState() != nil) {
		return nil, fmt.Errorf("server %s: the Secret %s is not the broker's", id, name)
	}
	if err := c.label(ctx, s); err != nil {
		return nil, fmt.Errorf("server %s: label its Secret again: %w", id, err)
	}
	if s.secret.Data == nil { // it has no files yet, or somebody has removed them
		s.secret.Data = map[string][]byte{}
	}
	return s, s.readState()
}

// label gives the Secret of a server the labels back that others have removed. Without them, lists do not have it.
func (c secrets) label(ctx context.Context, s *server) error {
	if hasAll(s.secret.Metadata.Labels, labelsOf(s.id)) {
		return nil
	}
	change := map[string]any{"metadata": api.Metadata{UID: s.secret.Metadata.UID, Labels: labelsOf(s.id)}}
	return c.api.Merge(ctx, c.api.Path(api.Secrets, s.name), change, &s.secret)
}

// each calls each with the metadata of the Secrets of all servers.
func (c secrets) each(ctx context.Context, each func(id string, m api.Metadata)) error {
	err := c.api.ListMetadata(ctx, api.Secrets, serversSelector, func(m api.Metadata) { each(m.Labels[serverLabel], m) })
	if err != nil {
		return fmt.Errorf("list servers: %w", err)
	}
	return nil
}

// change changes a server's Secret. If another broker has changed it meanwhile, change reads it and tries again. What
// others write to it at the same time does not matter, however often they do.
func (c secrets) change(ctx context.Context, s *server, change func(*server)) error {
	for pause := conflictPause; ; pause = min(2*pause, time.Second) {
		m, data, works := s.secret.Metadata, maps.Clone(s.secret.Data), s.state.Works
		known := maps.Clone(m.Annotations)
		changed := func() []api.Edit {
			return slices.Concat(edits(annotationsPath, known, s.secret.Metadata.Annotations),
				edits("/data", data, s.secret.Data))
		}
		change(s)
		s.writeState()
		if len(changed()) == 0 {
			return nil
		}
		if s.state.Works == works { // else the state has changed
			s.state.Changes++
			s.writeState()
		}
		unchanged := []api.Edit{{Op: "test", Path: "/metadata/uid", Value: m.UID},
			{Op: "test", Path: pathIn(annotationsPath, stateAnnotation), Value: known[stateAnnotation]}}
		err := c.api.Edit(ctx, c.api.Path(api.Secrets, s.name), append(unchanged, changed()...), &s.secret)
		if api.IsNotFound(err) {
			err = launcher.ErrNotFound
		}
		if !api.IsConflict(err) && !api.IsStatus(err, http.StatusUnprocessableEntity) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("server %s: change its Secret: %w: %w", s.id, context.Cause(ctx), err)
		case <-time.After(pause):
		}
		again, failed := c.find(ctx, s.id)
		switch {
		case failed != nil:
			return failed
		case again.secret.Metadata.UID != m.UID: // it was destroyed and created again
			return launcher.ErrNotFound
		case !api.IsConflict(err) && again.secret.Metadata.Annotations[stateAnnotation] == known[stateAnnotation]:
			return err // no test has failed
		}
		*s = *again
	}
}

// conflictPause is the pause after the first conflict. Somebody may write to the Secret again and again.
const conflictPause = 10 * time.Millisecond

const annotationsPath = "/metadata/annotations"

func pathIn(path, key string) string {
	return path + "/" + strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

// edits sets what differs between two versions of a map.
func edits[V any](path string, from, to map[string]V) (all []api.Edit) {
	if len(from) == 0 && len(to) > 0 {
		all = append(all, api.Edit{Op: "add", Path: path, Value: struct{}{}})
	}
	for key, value := range to {
		if was, there := from[key]; !there || !reflect.DeepEqual(was, value) {
			all = append(all, api.Edit{Op: "add", Path: pathIn(path, key), Value: value})
		}
	}
	return all
}

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
	return note.Data[noteKey], nil
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
