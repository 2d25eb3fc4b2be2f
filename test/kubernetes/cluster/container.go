package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const mysqlPort = 3306

type containerConfig struct {
	Dir        string // for its root and its log
	Path       string // $PATH
	Command    []string
	User       int
	Group      int
	ExtraGroup int
	Mounts     map[string]string // directories of the host by where the container sees them
}

// container is a process in mount, pid and network namespaces of its own.
type container struct {
	id   string
	cmd  *exec.Cmd
	log  string
	done chan struct{}

	began, ended time.Time
	network      *os.File // the namespace
}

// enter is what the first process of a container does before it becomes the container's command.
//
//go:embed enter.sh
var enter string

func startContainer(cfg containerConfig) (*container, error) {
	root := filepath.Join(cfg.Dir, "root")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, err
	}
	c := &container{id: "test://" + rand.Text(), log: filepath.Join(cfg.Dir, "log"), began: time.Now(),
		done: make(chan struct{})}
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	mounts := filepath.Join(cfg.Dir, "mounts")
	if err := os.WriteFile(mounts, fstab(root, cfg.Mounts), 0o600); err != nil {
		return nil, err
	}
	c.cmd = exec.Command("/bin/sh", slices.Concat([]string{"-euc", enter, "enter", root, mounts,
		fmt.Sprintf("%d:%d", cfg.User, cfg.Group), strconv.Itoa(cfg.ExtraGroup), cfg.Path}, cfg.Command)...)
	c.cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	c.cmd.Dir = "/"
	c.cmd.Stdout, c.cmd.Stderr = log, log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true,
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	await := func() {
		_ = c.cmd.Wait() // its state tells
		c.ended = time.Now()
		_ = c.network.Close()
		close(c.done)
	}
	c.network, err = os.Open(fmt.Sprintf("/proc/%d/ns/net", c.cmd.Process.Pid))
	if errors.Is(err, fs.ErrNotExist) { // it has ended already, which is for the pod to mend
		await()
		return c, nil
	}
	if err != nil {
		_ = c.cmd.Process.Kill()
		return nil, errors.Join(err, c.cmd.Wait())
	}
	go await()
	return c, nil
}

// fstab lists what is mounted below the root of a container: the host's programs, read-only, and volumes.
func fstab(root string, volumes map[string]string) []byte {
	var lines bytes.Buffer
	add := func(what, at, kind, options string) {
		fmt.Fprintf(&lines, "%s %s %s %s,X-mount.mkdir 0 0\n", what, root+at, kind, options)
	}
	for _, dir := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/usr", "/opt", "/etc"} {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() { // not a link
			add(dir, dir, "none", "bind,ro")
		}
	}
	add("share", "/usr/local/share", "tmpfs", "mode=0755") // what the image has beside the host's programs
	add("/dev", "/dev", "none", "rbind")
	add("proc", "/proc", "proc", "defaults")
	for _, at := range slices.Sorted(maps.Keys(volumes)) {
		add(volumes[at], at, "none", "bind")
	}
	return lines.Bytes()
}

func (c *container) pid() int {
	select {
	case <-c.done:
		return 0
	default:
		return c.cmd.Process.Pid
	}
}

// wait returns the exit code of the container when it has ended by itself. When the context ends, the container is
// ended, by force after grace, which may become shorter meanwhile; at once if grace is nil.
func (c *container) wait(ctx context.Context, grace func() time.Duration) int {
	select {
	case <-c.done:
		return c.cmd.ProcessState.ExitCode()
	case <-ctx.Done():
	}
	if grace != nil {
		_ = c.cmd.Process.Signal(syscall.SIGTERM) // it fails for one that has ended
		for asked := time.Now(); time.Since(asked) < grace(); {
			select {
			case <-c.done:
				return c.cmd.ProcessState.ExitCode()
			case <-time.After(gracePoll):
			}
		}
	}
	c.kill()
	<-c.done
	return c.cmd.ProcessState.ExitCode()
}

// gracePoll is how often the grace of a container that is to end is read again.
const gracePoll = 50 * time.Millisecond

func (c *container) kill() { _ = c.cmd.Process.Kill() }

// terminated is the status that a kubelet reports for a container that has ended.
func (c *container) terminated() map[string]any {
	reason := "Error"
	code := c.cmd.ProcessState.ExitCode()
	if status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		code = 128 + int(status.Signal())
	}
	if code == 0 {
		reason = "Completed"
	}
	text, _ := os.ReadFile(c.log) // what it printed is gone with the directory
	return map[string]any{"exitCode": code, "reason": reason, "message": string(text[max(0, len(text)-2048):]),
		"startedAt": c.began.UTC().Format(time.RFC3339), "finishedAt": c.ended.UTC().Format(time.RFC3339),
		"containerID": c.id}
}

// enterNetwork moves the calling thread into a network namespace.
func enterNetwork(namespace *os.File) error {
	file, err := namespace.SyscallConn() // which keeps it open meanwhile
	if err != nil {
		return err
	}
	var entered error
	err = file.Control(func(fd uintptr) { entered = unix.Setns(int(fd), unix.CLONE_NEWNET) })
	return errors.Join(err, entered)
}
