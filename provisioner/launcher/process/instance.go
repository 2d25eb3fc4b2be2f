package process

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

var validID = regexp.MustCompile(`^[a-z0-9_]{1,32}$`)

// instance is the directory of one server. The directory belongs to the broker; the server may write to data and tmp
// alone, so that a server taken over by its tenant cannot make the broker read or write elsewhere.
type instance struct {
	id, dir string
}

func (l *Launcher) instance(id string) (instance, error) {
	if !validID.MatchString(id) {
		return instance{}, fmt.Errorf("server id %q: want 1 to 32 lower-case letters, digits and underscores", id)
	}
	return instance{id: id, dir: filepath.Join(l.instancesDir(), id)}, nil
}

// instances are all servers, in whatever phase.
func (l *Launcher) instances() ([]instance, error) {
	entries, err := os.ReadDir(l.instancesDir())
	if err != nil {
		return nil, fmt.Errorf("list servers: %w", err)
	}
	all := make([]instance, 0, len(entries))
	for _, e := range entries {
		if inst, err := l.instance(e.Name()); err == nil {
			all = append(all, inst)
		}
	}
	return all, nil
}

func (i instance) dataDir() string      { return filepath.Join(i.dir, "data") }
func (i instance) tmpDir() string       { return filepath.Join(i.dir, "tmp") }
func (i instance) tlsDir() string       { return filepath.Join(i.dir, "tls") }
func (i instance) caFile() string       { return filepath.Join(i.tlsDir(), "ca.pem") }
func (i instance) stateFile() string    { return filepath.Join(i.dir, "state.json") }
func (i instance) settingsFile() string { return filepath.Join(i.dir, "mysqld.cnf") }
func (i instance) initFile() string     { return filepath.Join(i.dir, "init.sql") }
func (i instance) logFile() string      { return filepath.Join(i.dir, "mysqld.log") }
func (i instance) keptFile() string     { return filepath.Join(i.dir, "kept") }
