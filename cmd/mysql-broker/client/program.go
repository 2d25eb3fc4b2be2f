package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// program is one of MySQL's or MariaDB's command line clients.
type program struct {
	path    string
	flavour string // its own flavour: MariaDB's can also be called mysql
}

// task is the purpose of a program.
type task struct {
	names []string // of programs for it
	what  string
}

var (
	dumping   = task{[]string{"mariadb-dump", "mysqldump"}, "dump"}
	restoring = task{[]string{"mariadb", "mysql"}, "restore"}
)

// packages contain the programs for each flavour.
var packages = map[string]string{
	flavourMySQL: "mysql-client (of Ubuntu, Debian unstable, or MySQL's own repository)",
	// MySQL's programs cannot log in to MariaDB: since 9.0 they lack mysql_native_password.
	flavourMariaDB: "mariadb-client",
}

// findProgram returns the program in PATH that fits a server best: one of its flavour or, for a MySQL server,
// MariaDB's.
func findProgram(ctx context.Context, t task, server string) (best program, err error) {
	for _, name := range t.names {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		version, err := exec.CommandContext(ctx, path, "--version").Output() // #nosec G204 -- one of the names
		if err != nil {
			continue
		}
		p := program{path, flavourMySQL}
		if strings.Contains(string(version), flavourMariaDB) {
			p.flavour = flavourMariaDB
		}
		if p.flavour == server {
			return p, nil
		}
		if p.flavour == flavourMariaDB {
			best = p
		}
	}
	if best.path == "" {
		return best, fmt.Errorf("to %s a database on %s, one of %s of that flavour has to be in PATH: install the package %s",
			t.what, server, strings.Join(t.names, ", "), packages[server])
	}
	return best, nil
}

// stopTime limits how long a program may take to stop.
const stopTime = 10 * time.Second

// command prepares a run of the program on the login's database. Call close after it. The password is in no argument
// and on no disk.
func (p program) command(ctx context.Context, l login, arguments ...string) (cmd *exec.Cmd, close func(), err error) {
	ca, err := memoryFile("ca", l.CACertificate)
	if err != nil {
		return nil, nil, err
	}
	options, err := memoryFile("options", l.options(p, inherited(0)))
	if err != nil {
		return nil, nil, errors.Join(err, ca.Close())
	}
	// #nosec G204 -- found in PATH by one of a few names
	cmd = exec.CommandContext(ctx, p.path, append([]string{"--defaults-file=" + inherited(1)}, arguments...)...)
	cmd.ExtraFiles, cmd.WaitDelay, cmd.Stderr = []*os.File{ca, options}, stopTime, &bytes.Buffer{}
	return cmd, func() { _, _ = ca.Close(), options.Close() }, nil
}

// said is the standard error of a program that has ended.
func said(cmd *exec.Cmd) string { return strings.TrimSpace(cmd.Stderr.(*bytes.Buffer).String()) }

// explain says why a program failed, with its own message if there is one.
func explain(ctx context.Context, cmd *exec.Cmd, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return errInterrupted
	}
	if _, ended := errors.AsType[*exec.ExitError](err); ended && said(cmd) != "" {
		return errors.New(said(cmd))
	}
	return fmt.Errorf("%s: %w", cmd.Path, err)
}

var errInterrupted = errors.New("interrupted")
