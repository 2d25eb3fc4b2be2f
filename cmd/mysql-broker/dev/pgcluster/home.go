package pgcluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"mysql-broker/provisioner/launcher/process/files"
)

const superuser = "postgres"

// ErrTaken says that a cluster is that of another process, which lives.
var ErrTaken = errors.New("another process runs it")

// home is a cluster's locked directory, in which it runs PostgreSQL's programs.
type home struct {
	dir   string // absolute
	bin   string // where initdb and postgres are
	owner files.Owner
	lock  *os.File
}

func openHome(dir string) (*home, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	bin, err := findBinaries()
	if err != nil {
		return nil, err
	}
	owner, err := files.LookupOwner()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	lock := filepath.Join(dir, "lock")
	if err := files.Write(lock, nil, 0o600); err != nil {
		return nil, err
	}
	locked, err := files.TryLock(lock)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrTaken
	}
	return &home{dir: dir, bin: bin, owner: owner, lock: locked}, err
}

// close lets another process start the cluster. Closing the file is not enough: a program that another goroutine is
// starting also has it open for a moment. https://man7.org/linux/man-pages/man2/flock.2.html
func (h *home) close() {
	_ = syscall.Flock(int(h.lock.Fd()), syscall.LOCK_UN) // cannot fail for an open file
	h.lock.Close()
}

func (h *home) dataDir() string { return filepath.Join(h.dir, "data") }

func (h *home) passwordFile() string { return filepath.Join(h.dir, "password") }

// password returns the superuser's password, and creates it if there is none.
func (h *home) password() (string, error) {
	data, err := os.ReadFile(h.passwordFile())
	if !errors.Is(err, fs.ErrNotExist) {
		return string(data), err
	}
	password := rand.Text()
	unfinished := h.passwordFile() + ".new"
	if err := h.owner.WriteSecret(unfinished, []byte(password)); err != nil { // initdb reads it
		return "", err
	}
	return password, os.Rename(unfinished, h.passwordFile())
}

// initialise creates the data directory if there is none. A crash leaves data.new, never an incomplete data directory.
func (h *home) initialise(ctx context.Context, durable bool) error {
	if _, err := os.Stat(h.dataDir()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	unfinished := h.dataDir() + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	if err := h.owner.Mkdir(unfinished); err != nil {
		return err
	}
	args := []string{"--pgdata=" + unfinished, "--username=" + superuser, "--pwfile=" + h.passwordFile(),
		"--encoding=UTF8", "--locale=C"}
	if durable {
		args = append(args, "--auth=scram-sha-256")
	} else { // each connection of SCRAM costs its client milliseconds, and tests make thousands
		args = append(args, "--auth=md5", "--no-sync")
	}
	cmd := h.command(ctx, "initdb", args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, out)
	}
	return os.Rename(unfinished, h.dataDir())
}

// command returns a command that runs one of PostgreSQL's programs as the server's user. It has its own session, so
// that Ctrl-C in a terminal does not reach it, and not the caller's environment, whose PG* variables would affect it.
func (h *home) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(h.bin, program), args...)
	cmd.Dir = "/" // the server's user may not be able to enter the caller's
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	cmd.SysProcAttr = h.owner.Attributes()
	return cmd
}
