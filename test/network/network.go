// Package network gives tests a network of hosts that fails at will. Each host is a network namespace, whose packets the
// test's process passes on or drops. The servers on it use the kernel's TCP as they do in production, so they see
// what they would see there.
//
// It needs root, /dev/net/tun and iproute2. Without root, tests that use it are skipped.
package network

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Networks are parts of 198.18.0.0/15, which is for tests of networks and routed nowhere.
// https://www.rfc-editor.org/rfc/rfc2544#appendix-C.2.2
const (
	All      = "198.18.0.0/16" // all of them
	prefix   = 24
	networks = 256
)

// Network connects hosts. Its methods may be called from any goroutine.
type Network struct {
	// Outside is the host of the test and of everything else that no other Host runs. It is the first host.
	Outside *Host
	subnet  int

	mu    sync.Mutex
	hosts map[netip.Addr]*Host
	lost  map[way]bool

	passing sync.WaitGroup
}

// New makes a network with that many hosts besides the one outside. It is removed when the test ends.
func New(t testing.TB, count int) (n *Network, hosts []*Host) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces and TUN devices need root")
	}
	n = &Network{hosts: map[netip.Addr]*Host{}, lost: map[way]bool{}}
	t.Cleanup(n.close)
	require.NoError(t, n.openOutside())
	for i := range count {
		h, err := newHost(n.addr(i + 2))
		require.NoError(t, err)
		n.hosts[h.Addr] = h
		hosts = append(hosts, h)
	}
	for _, h := range n.hosts {
		n.passing.Go(func() { n.pass(h) })
	}
	return n, hosts
}

// openOutside takes a subnet that no other test uses: their devices have the same names.
func (n *Network) openOutside() error {
	for ; n.subnet < networks; n.subnet++ {
		addr := n.addr(1)
		device, err := openDevice(fmt.Sprint("broker-test", n.subnet), addr)
		if errors.Is(err, unix.EBUSY) {
			continue
		}
		if err == nil {
			n.Outside = &Host{Addr: addr, device: device}
			n.hosts[addr] = n.Outside
		}
		return err
	}
	return errors.New("every network that tests may use is taken")
}

func (n *Network) addr(host int) netip.Addr {
	return netip.AddrFrom4([4]byte{198, 18, byte(n.subnet), byte(host)})
}

func (n *Network) close() {
	for _, h := range n.hosts {
		h.close()
	}
	n.passing.Wait()
}
