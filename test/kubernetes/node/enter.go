package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// insideVar marks the program that Enter has started in the namespaces.
const insideVar = "KUBERNETES_NODE_INSIDE"

// Enter runs the calling program again, with the same arguments, in mount, process and network namespaces of its own,
// and returns its exit status. In the new namespaces it returns inside = true. When the program ends, its mounts,
// addresses, packet filters and processes end with the namespaces. Control groups do not, so Enter removes them.
func Enter() (inside bool, status int, err error) {
	switch os.Getenv(insideVar) {
	case "":
		if os.Getuid() != 0 {
			return false, 0, errors.New("a node needs namespaces and control groups, which need root")
		}
		cmd := again("init")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true,
			Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET}
		status, err = run(cmd)
		return false, status, errors.Join(err, removeControlGroups())
	case "init":
		if err := prepareNamespaces(); err != nil {
			return false, 1, err
		}
		status, err = run(again("program"))
		return false, status, err
	}
	return true, 0, nil
}

func again(what string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideVar+"="+what)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd
}

// run waits for a command, and for all processes that are left to this one: process 1 of the namespace has to reap the
// shims of containers. Signals are passed on to the command, once.
func run(cmd *exec.Cmd) (status int, err error) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s) // it fails for one that has ended
		}
	}()
	for {
		var state syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &state, 0, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return 1, fmt.Errorf("wait: %w", err)
		}
		if pid == cmd.Process.Pid {
			if state.Signaled() {
				return 128 + int(state.Signal()), nil
			}
			return state.ExitStatus(), nil
		}
	}
}

// removeTime bounds how long control groups stay busy after their processes have ended.
const removeTime = 20 * time.Second

// removeControlGroups removes those that the kubelet has made. Their processes have ended, but on a busy host the kernel
// may take a while to let go of them.
func removeControlGroups() error {
	for deadline := time.Now().Add(removeTime); ; time.Sleep(100 * time.Millisecond) {
		err := tryRemoveControlGroups()
		if err == nil || !errors.Is(err, syscall.EBUSY) || time.Now().After(deadline) {
			return err
		}
	}
}

func tryRemoveControlGroups() error {
	roots, err := filepath.Glob("/sys/fs/cgroup/*/kubepods")
	if err != nil {
		return err
	}
	for _, root := range append(roots, "/sys/fs/cgroup/kubepods") {
		var dirs []string
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				dirs = append(dirs, path)
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
		for _, dir := range slices.Backward(dirs) {
			if err := os.Remove(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// prepareNamespaces makes the new namespaces fit for a node. Its address is one of the loopback interface: nothing
// leaves.
func prepareNamespaces() error {
	for _, flag := range []uintptr{syscall.MS_PRIVATE, syscall.MS_SHARED} { // shared among pods, but not with the host
		if err := syscall.Mount("", "/", "", syscall.MS_REC|flag, ""); err != nil {
			return fmt.Errorf("mounts: %w", err)
		}
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("proc: %w", err)
	}
	if err := hideState(); err != nil {
		return err
	}
	for _, command := range []string{
		"link set lo up", "address add " + Address + "/32 dev lo",
		"route add " + services + " dev lo src " + Address, // else the node itself would find no route to a Service
	} {
		if out, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", command, err, out)
		}
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
}

// hideState gives the programs a /run and a /var of their own: they have paths there that cannot be configured.
func hideState() error {
	if err := syscall.Mount("tmpfs", "/run", "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("/run: %w", err)
	}
	const upper, work = "/run/node/upper", "/run/node/work"
	if err := errors.Join(os.MkdirAll(upper, 0o755), os.MkdirAll(work, 0o755)); err != nil {
		return err
	}
	if err := syscall.Mount("overlay", "/var", "overlay", 0,
		"lowerdir=/var,upperdir="+upper+",workdir="+work); err != nil {
		return fmt.Errorf("/var: %w", err)
	}
	return nil
}
