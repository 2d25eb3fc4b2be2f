package kubernetes

import (
	"context"
	"fmt"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes/api"
	"mysql-broker/provisioner/launcher/mysqld"
)

// Keep implements launcher.Launcher.
func (l *Launcher) Keep(ctx context.Context, id string) error {
	s, err := l.find(ctx, id)
	if err != nil {
		return fmt.Errorf("server %s: %w", id, err)
	}
	if s.kept() {
		return nil
	}
	return l.change(ctx, s, func(s *server) { s.secret.Metadata.Annotations[keptAnnotation] = "true" })
}

// ChangeAdminPassword implements launcher.Launcher. When a server starts, its init file creates the account if it is
// missing, and does not change its password.
func (l *Launcher) ChangeAdminPassword(ctx context.Context, id, next string, change func(context.Context) error) error {
	s, err := l.find(ctx, id)
	if err == nil && s.state.Phase != phaseReady {
		err = launcher.ErrNotFound
	}
	if err != nil {
		return err
	}
	if err := mysqld.CheckAdminPassword(next); err != nil {
		return fmt.Errorf("server %s: %w", id, err)
	}
	if err := change(ctx); err != nil {
		return err
	}
	return l.change(ctx, s, func(s *server) { s.writeInit(next) })
}

// change changes a server's Secret. If another broker has changed it meanwhile, change reads it and tries again.
func (l *Launcher) change(ctx context.Context, s *server, change func(*server)) error {
	for {
		change(s)
		s.writeState()
		path := l.api.Path(api.Secrets, s.name)
		err := l.api.Merge(ctx, path, secretChange{Data: s.secret.Data, Metadata: metadataChange{
			UID: s.secret.Metadata.UID, ResourceVersion: s.secret.Metadata.ResourceVersion,
			Annotations: s.secret.Metadata.Annotations}}, &s.secret)
		if api.IsNotFound(err) {
			err = launcher.ErrNotFound
		}
		if !api.IsConflict(err) {
			return err
		}
		again, err := l.find(ctx, s.id)
		if err != nil {
			return err
		}
		if again.secret.Metadata.UID != s.secret.Metadata.UID { // it was destroyed and created again
			return launcher.ErrNotFound
		}
		*s = *again
	}
}

// secretChange is a merge patch. It fails with a conflict if the Secret was replaced or changed since it was read.
type secretChange struct {
	Metadata metadataChange    `json:"metadata"`
	Data     map[string][]byte `json:"data"`
}

type metadataChange struct {
	UID             string            `json:"uid"`
	ResourceVersion string            `json:"resourceVersion"`
	Annotations     map[string]string `json:"annotations"`
}
