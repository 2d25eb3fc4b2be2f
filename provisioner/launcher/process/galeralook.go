package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"mysql-broker/provisioner/launcher/galera"
)

// lookAtGalera asks a member of Galera for its state. One that starts has no socket yet.
func (l *Launcher) lookAtGalera(ctx context.Context, look *memberLook) {
	s, err := searchProcesses(look.dir, l.owner)
	if err != nil {
		look.Err = err
		return
	}
	if s == nil {
		look.down, look.Err = true, fmt.Errorf("server %s: it does not run", look.dir.id)
		return
	}
	s.close()
	if _, err := os.Lstat(filepath.Join(look.dir.dataDir(), socketName)); errors.Is(err, fs.ErrNotExist) {
		look.State = "RECOVERING"
		return
	}
	if err := l.onMember(ctx, look.dir, func(c memberConn) (err error) {
		look.Look, err = galera.Ask(c.ctx, c.conn)
		return err
	}); err != nil {
		look.Err = err
	}
}
