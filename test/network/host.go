package network

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Host is a network namespace with one address. It ends with the test and the last process in it.
// https://man7.org/linux/man-pages/man7/network_namespaces.7.html
type Host struct {
	Addr      netip.Addr
	namespace *os.File // nil: that of the test
	device    *os.File
}

// newHost makes a namespace whose device has the address.
func newHost(addr netip.Addr) (*Host, error) {
	h := &Host{Addr: addr}
	err := onThread(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace: %w", err)
		}
		if h.namespace, err = os.Open("/proc/thread-self/ns/net"); err != nil {
			return err
		}
		if err := ip("link", "set", "lo", "up"); err != nil {
			return err
		}
		h.device, err = openDevice("tun0", addr)
		return err
	})
	if err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

func (h *Host) close() {
	for _, file := range []*os.File{h.device, h.namespace} {
		if file != nil {
			_ = file.Close() // nothing is written that could be lost
		}
	}
}

// Do runs fn on a thread in the host: processes that it starts, and sockets that it opens, belong to the host. Without a
// host, that is the test's own.
func (h *Host) Do(fn func() error) error {
	if h == nil || h.namespace == nil {
		return fn()
	}
	return onThread(func() error {
		if err := unix.Setns(int(h.namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter a network namespace: %w", err)
		}
		return fn()
	})
}

// The first thread stays in the namespace of the test, because /proc/net shows that of the first thread: this keeps
// goroutines other than the first from running on it.
func init() { runtime.LockOSThread() }

// onThread runs fn on a thread of its own. It ends with fn, because it may be in another namespace than all others.
func onThread(fn func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- fn()
	}()
	return <-done
}

// mtu is the size of the largest packets. Large ones take less of the processor's time.
const mtu = 16000

// openDevice makes a TUN device in the thread's namespace. What the kernel routes to it can be read as packets of IP.
// The device is gone when the file is closed.
// https://docs.kernel.org/networking/tuntap.html
func openDevice(name string, addr netip.Addr) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_TUN_EXCL)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err == nil {
		err = address(name, addr)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("make the device %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// address gives a device of the thread's namespace an address of a /24, and starts it.
func address(name string, addr netip.Addr) error {
	if err := ip("address", "add", netip.PrefixFrom(addr, prefix).String(), "dev", name); err != nil {
		return err
	}
	return ip("link", "set", name, "mtu", strconv.Itoa(mtu), "up")
}

// ip runs the program of iproute2 in the thread's namespace.
func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %v: %w: %s", args, err, out)
	}
	return nil
}
