package testdrive

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Disk is a test's own small file system, a tmpfs that real programs fill with real errors. It is mounted in a mount
// namespace: the host does not see it, and it disappears with its last process. Root needs only CAP_SYS_ADMIN for that;
// other users need a kernel that lets them create user namespaces.
// https://man7.org/linux/man-pages/man7/mount_namespaces.7.html
type Disk struct {
	dir   string // where it is mounted
	owner *exec.Cmd
}

// MountDisk mounts a disk of some MiB over a launcher's directory until the test ends. Only brokers started by its
// Start see it; their dedicated servers are killed when the test ends.
func MountDisk(t testing.TB, dir string, mebibytes int) *Disk {
	args := []string{"--mount"}
	if os.Geteuid() != 0 {
		args = append(args, "--user", "--map-root-user")
	}
	mount := fmt.Sprintf("mount -t tmpfs -o size=%dm,mode=0755 tmpfs %q && echo mounted && exec cat", mebibytes, dir)
	d := &Disk{dir: dir, owner: exec.Command("unshare", append(args, "sh", "-c", mount)...)}
	open, err := d.owner.StdinPipe() // cat ends with the test process, whatever ends that
	require.NoError(t, err)
	out, err := d.owner.StdoutPipe()
	require.NoError(t, err)
	d.owner.Stderr = t.Output()
	require.NoError(t, d.owner.Start(), "make a mount namespace")
	t.Cleanup(func() {
		SignalMysqlds(t, dir, syscall.SIGKILL)
		open.Close()
		d.owner.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.Equal(t, "mounted\n", line, "mount a disk: %q, %v", line, err)
	return d
}

// Start is like the function Start, for a broker that sees the disk.
func (d *Disk) Start(t testing.TB, env map[string]string) *Broker {
	return started(t, StartProgram(t, env, append(d.enter(), binaryFor(t, env), "serve")...))
}

// Path is the path by which the test can open a file of the disk.
func (d *Disk) Path(name string) string {
	return filepath.Join(fmt.Sprintf("/proc/%d/root", d.owner.Process.Pid), d.dir, name)
}

const filler = "filler"

// Fill fills the disk up to so many free MiB.
func (d *Disk) Fill(t testing.TB, leave int64) {
	f, err := os.Create(d.Path(filler))
	require.NoError(t, err)
	defer f.Close()
	n, err := io.Copy(f, zeros{})
	require.ErrorIs(t, err, syscall.ENOSPC, "the disk took %d bytes", n)
	require.NoError(t, f.Truncate(max(n-leave<<20, 0)))
}

// Free deletes what Fill wrote.
func (d *Disk) Free(t testing.TB) { require.NoError(t, os.Remove(d.Path(filler))) }

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// enter is how a command begins that is to see the disk.
func (d *Disk) enter() []string {
	enter := []string{"nsenter", "--target", strconv.Itoa(d.owner.Process.Pid), "--mount"}
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		enter = append(enter, "--user", "--preserve-credentials", "unshare", "--user",
			"--map-user="+strconv.Itoa(uid), "--map-group="+strconv.Itoa(gid)) // themselves again
	}
	return enter
}
