package network_test

import (
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/limits"
	"mysql-broker/test/network"
)

func TestNetwork(t *testing.T) {
	t.Parallel()
	n, hosts := network.New(t, 2)
	a, b := hosts[0], hosts[1]
	var l net.Listener
	require.NoError(t, b.Do(func() (err error) {
		l, err = net.Listen("tcp", netip.AddrPortFrom(b.Addr, 0).String())
		return err
	}))
	t.Cleanup(func() { l.Close() })
	dial := func(from *network.Host, limit time.Duration) error { // packets pass in both directions
		return from.Do(func() error {
			c, err := net.DialTimeout("tcp", l.Addr().String(), limit)
			if err == nil {
				err = c.Close()
			}
			return err
		})
	}
	assert.NoError(t, dial(a, limits.Stuck), "nothing is set")
	n.Cut(b, a)
	assert.True(t, os.IsTimeout(dial(a, 500*time.Millisecond)), "lost")
	assert.NoError(t, dial(n.Outside, limits.Stuck), "another host is not affected")
	n.Heal()
	assert.NoError(t, dial(a, limits.Stuck), "healed")
	n.Cut(b)
	assert.True(t, os.IsTimeout(dial(a, 300*time.Millisecond)), "cut off")
	assert.NoError(t, dial(n.Outside, limits.Stuck), "the test itself is outside")
	n.Cut(b, n.Outside)
	assert.True(t, os.IsTimeout(dial(n.Outside, 300*time.Millisecond)), "the test is cut off")
}
