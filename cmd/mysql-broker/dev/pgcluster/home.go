package pgcluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

const superuser = "postgres"

// home is a cluster's directory, locked, with what it takes to run PostgreSQL's programs in it.
type home struct {
	dir  string // absolute
	bin  string // where initdb and postgres are
	user *syscall.Credential
	env  []string
	lock *os.File
}

func openHome(dir string, as *syscall.Credential) (*home, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	bin, err := findBinaries()
	if err != nil {
		return nil, err
	}
	if as == nil && os.Geteuid() == 0 {
		if as, err = nobody(); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	lock, err := lockFile(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, err
	}
	return &home{dir: dir, bin: bin, user: as, lock: lock}, nil
}

// close lets another process start the cluster. To close the file would not do at once: a program that another
// goroutine is just starting holds it, too, until it has begun. https://man7.org/linux/man-pages/man2/flock.2.html
func (h *home) close() {
	_ = syscall.Flock(int(h.lock.Fd()), syscall.LOCK_UN) // which cannot fail for a file that is open
	h.lock.Close()
}

func (h *home) dataDir() string { return filepath.Join(h.dir, "data") }

func (h *home) passwordFile() string { return filepath.Join(h.dir, "password") }

// password reads the superuser's password, or makes it if there is none yet.
func (h *home) password() (string, error) {
	data, err := os.ReadFile(h.passwordFile())
	if !errors.Is(err, fs.ErrNotExist) {
		return string(data), err
	}
	password := rand.Text()
	unfinished := h.passwordFile() + ".new"
	if err := os.WriteFile(unfinished, []byte(password), 0o600); err != nil {
		return "", err
	}
	if err := h.giveToUser(unfinished); err != nil { // initdb reads it
		return "", err
	}
	return password, os.Rename(unfinished, h.passwordFile())
}

// initialise makes the data directory if there is none yet. A crash leaves data.new, never half a data directory.
func (h *home) initialise(ctx context.Context, durable bool) error {
	if _, err := os.Stat(h.dataDir()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	unfinished := h.dataDir() + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	if err := os.Mkdir(unfinished, 0o700); err != nil {
		return err
	}
	if err := h.giveToUser(unfinished); err != nil {
		return err
	}
	args := []string{"--pgdata=" + unfinished, "--username=" + superuser, "--pwfile=" + h.passwordFile(),
		"--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"}
	if !durable {
		args = append(args, "--no-sync")
	}
	if out, err := h.command(ctx, "initdb", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return os.Rename(unfinished, h.dataDir())
}

// command runs one of PostgreSQL's programs as the server's user, in a session of its own, so that a terminal's
// Ctrl-C does not reach it, and without the caller's environment, where PG* variables would change what it does.
func (h *home) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(h.bin, program), args...)
	cmd.Dir = "/" // the caller's may be out of the user's reach
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	cmd.Env = append(cmd.Env, h.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: h.user}
	return cmd
}

func (h *home) giveToUser(path string) error {
	if h.user == nil {
		return nil
	}
	return os.Chown(path, int(h.user.Uid), int(h.user.Gid))
}

// nobody is whom root runs the server as: PostgreSQL refuses to run as root.
func nobody() (*syscall.Credential, error) {
	u, err := user.Lookup("nobody")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// lockFile takes a lock that ends with the process, or when the file is closed.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = errors.New("another process runs it")
		}
		return nil, err
	}
	return f, nil
}
