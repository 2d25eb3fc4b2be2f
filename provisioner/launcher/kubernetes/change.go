package kubernetes

import (
	"context"
	"fmt"

	"mysql-broker/provisioner/launcher"
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

// ChangeAdminPassword implements launcher.Launcher. The password that a server is started with makes the account only
// where there is none.
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
	return l.change(ctx, s, func(s *server) {
		s.secret.Data[initFile] = adminSQL(s.state.Flavour, s.state.AdminUser, next)
	})
}

// change changes a server's Secret. One that another changed meanwhile is read again, and changed then.
func (l *Launcher) change(ctx context.Context, s *server, change func(*server)) error {
	for {
		change(s)
		s.writeState()
		path := l.api.path(secrets, s.name)
		err := l.api.merge(ctx, path, secretChange{Data: s.secret.Data, Metadata: metadataChange{
			UID: s.secret.Metadata.UID, ResourceVersion: s.secret.Metadata.ResourceVersion,
			Annotations: s.secret.Metadata.Annotations}}, &s.secret)
		if isNotFound(err) {
			err = launcher.ErrNotFound
		}
		if !isConflict(err) {
			return err
		}
		again, err := l.find(ctx, s.id)
		if err != nil {
			return err
		}
		if again.secret.Metadata.UID != s.secret.Metadata.UID { // it was destroyed and made anew
			return launcher.ErrNotFound
		}
		*s = *again
	}
}

// secretChange is a merge patch, which fails with a conflict if the Secret is another one or was changed since.
type secretChange struct {
	Metadata metadataChange    `json:"metadata"`
	Data     map[string][]byte `json:"data"`
}

type metadataChange struct {
	UID             string            `json:"uid"`
	ResourceVersion string            `json:"resourceVersion"`
	Annotations     map[string]string `json:"annotations"`
}
