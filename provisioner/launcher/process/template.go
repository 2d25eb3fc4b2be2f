package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/launcher/process/files"
	"mysql-broker/provisioner/mysqladmin"
)

// templates are data directories from which new servers are copied.
type templates struct {
	place place
	owner files.Owner
}

// get returns a data directory of a program's flavour and version, with no account that can log in. It is created
// once, in 1 to 3 s; a copy takes a tenth of that.
func (t templates) get(ctx context.Context, b mysqld.Binary) (string, error) {
	dir := t.path(b)
	if _, err := os.Stat(dir); err == nil { // it gets its name when it is complete
		return dir, nil
	}
	lock, err := holdLock(ctx, t.place.templatesDir())
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	begun := dir + unfinished
	if err := os.RemoveAll(begun); err != nil {
		return "", fmt.Errorf("make a template: %w", err)
	}
	err = t.initialise(ctx, b, lock, begun)
	if err == nil {
		err = files.DigHoles(begun)
	}
	if err == nil {
		err = files.SyncFilesystem(begun)
	}
	if err == nil {
		err = os.Rename(begun, dir)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("make a template: %w", err), os.RemoveAll(begun))
	}
	return dir, nil
}

// initialise creates a data directory. Its programs also hold the lock, because they may outlive this process: nobody
// may start again while one still writes.
func (t templates) initialise(ctx context.Context, b mysqld.Binary, lock *os.File, dir string) error {
	// Servers that share a directory for temporary tables, such as /tmp, sometimes delete each other's.
	tmp := t.tmpDir()
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	for _, d := range []string{dir, tmp} {
		if err := t.owner.Mkdir(d); err != nil {
			return err
		}
	}
	options := append([]string{
		"--no-defaults",
		"--basedir=" + b.BaseDir,
		"--datadir=" + dir,
	}, mysqld.InitialOptions[b.Flavour]...)
	if b.Flavour == mysqld.MariaDB {
		return t.initialiseMariaDB(ctx, b, lock, dir, options)
	}
	return t.initialiseMySQL(ctx, b, lock, dir, options)
}

// initialiseMySQL drops root as the last act of initialisation: an --init-file that failed in a copy would otherwise
// leave root without a password. https://dev.mysql.com/doc/refman/8.4/en/data-directory-initialization.html
func (t templates) initialiseMySQL(ctx context.Context, b mysqld.Binary, lock *os.File, dir string,
	options []string) error {
	zones, err := timeZones()
	if err != nil {
		return err
	}
	statements := dir + ".sql"
	if err := os.WriteFile(statements, []byte(zones+"DROP USER 'root'@'localhost';\n"), 0o644); err != nil {
		return err
	}
	defer os.Remove(statements)
	options = append(options, "--initialize-insecure", "--init-file="+statements)
	if err := t.runTool(ctx, lock, "", b.Path, options...); err != nil {
		return err
	}
	// auto.cnf holds the server's identity, the PEM files its keys: a copy must have its own.
	return files.RemoveMatching(dir, "auto.cnf", "*.pem", "ib_buffer_pool", "binlog.*")
}

// initialiseMariaDB removes the accounts that the installation script leaves without a password: root@localhost,
// root@HOST, root@127.0.0.1 and root@::1. https://mariadb.com/kb/en/mariadb-install-db/
func (t templates) initialiseMariaDB(ctx context.Context, b mysqld.Binary, lock *os.File, dir string,
	options []string) error {
	script, err := b.InstallScript()
	if err != nil {
		return err
	}
	install := []string{"--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"}
	if err := t.runTool(ctx, lock, "", script, slices.Concat(options, install)...); err != nil {
		return err
	}
	zones, err := timeZones()
	if err != nil {
		return err
	}
	const dropAccounts = "DELETE FROM mysql.global_priv WHERE User <> 'mariadb.sys';\n" +
		"DELETE FROM mysql.proxies_priv;\n"
	if err := t.runTool(ctx, lock, zones+dropAccounts, b.Path, append(options, "--bootstrap")...); err != nil {
		return err
	}
	return files.RemoveMatching(dir, "ib_buffer_pool")
}

// timeZones returns the statements that fill the tables of named time zones.
func timeZones() (string, error) {
	statements, err := mysqladmin.TimeZones()
	return strings.Join(statements, ";\n") + ";\n", err
}

func (t templates) path(b mysqld.Binary) string {
	return filepath.Join(t.place.templatesDir(), b.Flavour+"-"+b.Version)
}

func (t templates) tmpDir() string { return filepath.Join(t.place.templatesDir(), "tmp") }

// toolTime limits a program that usually takes some seconds.
const toolTime = 10 * time.Minute

// tool returns a command that runs a program as the servers' owner. When the context ends, it kills the program and all
// its children.
func tool(ctx context.Context, owner files.Owner, tmpDir, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(serverEnvironment(), "TMPDIR="+tmpDir)
	cmd.SysProcAttr = owner.Attributes()
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) } // it has its own session
	cmd.WaitDelay = time.Second
	return cmd
}

// runTool runs a program with the lock, which its children hold too. The error ends with the program's error output.
func (t templates) runTool(ctx context.Context, lock *os.File, stdin, path string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, toolTime)
	defer cancel()
	cmd := tool(ctx, t.owner, t.tmpDir(), path, args...)
	cmd.Dir = t.place.templatesDir()
	cmd.Stdin = strings.NewReader(stdin)
	cmd.ExtraFiles = []*os.File{lock}
	out, err := cmd.CombinedOutput()
	if err != nil && denied.Match(out) {
		return fmt.Errorf("%s may not write to %s, which is its user's. If AppArmor confines it, put the line "+
			"\"%s/** rwk,\" into /etc/apparmor.d/local/usr.sbin.mysqld, and run "+
			"apparmor_parser -r /etc/apparmor.d/usr.sbin.mysqld: %w: %s",
			filepath.Base(path), t.place, t.place, err, tellingLines(string(out)))
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(path), err, tellingLines(string(out)))
	}
	return nil
}

// denied matches what both flavours print if their data directory is not writable.
var denied = regexp.MustCompile(`Permission denied|is not writable`)
