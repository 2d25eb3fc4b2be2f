package process

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

var validID = regexp.MustCompile(`^[a-z0-9_]{1,32}$`)

// serverDir is the directory of one server. It belongs to the broker. The server may write only to data and tmp, so
// that a tenant who takes over the server cannot make the broker read or write elsewhere.
type serverDir struct {
	id, dir string
}

func (l *Launcher) serverDir(id string) (serverDir, error) {
	if !validID.MatchString(id) {
		return serverDir{}, fmt.Errorf("server id %q: want 1 to 32 lower-case letters, digits and underscores", id)
	}
	return serverDir{id: id, dir: filepath.Join(l.serversDir(), id)}, nil
}

// serverDirs returns the directories of all servers, in any phase.
func (l *Launcher) serverDirs() ([]serverDir, error) {
	entries, err := os.ReadDir(l.serversDir())
	if err != nil {
		return nil, fmt.Errorf("list servers: %w", err)
	}
	all := make([]serverDir, 0, len(entries))
	for _, e := range entries {
		if sd, err := l.serverDir(e.Name()); err == nil {
			all = append(all, sd)
		}
	}
	return all, nil
}

func (d serverDir) dataDir() string      { return filepath.Join(d.dir, "data") }
func (d serverDir) tmpDir() string       { return filepath.Join(d.dir, "tmp") }
func (d serverDir) tlsDir() string       { return filepath.Join(d.dir, "tls") }
func (d serverDir) caFile() string       { return filepath.Join(d.tlsDir(), "ca.pem") }
func (d serverDir) stateFile() string    { return filepath.Join(d.dir, "state.json") }
func (d serverDir) settingsFile() string { return filepath.Join(d.dir, "mysqld.cnf") }
func (d serverDir) initFile() string     { return filepath.Join(d.dir, "init.sql") }
func (d serverDir) logFile() string      { return filepath.Join(d.dir, "mysqld.log") }
func (d serverDir) keptFile() string     { return filepath.Join(d.dir, "kept") }
func (d serverDir) recordFile() string   { return filepath.Join(d.dir, "record") }
