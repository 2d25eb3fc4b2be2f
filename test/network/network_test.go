package network_test

import (
	"io"
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

// echo listens on a host, and repeats what it is sent until the test ends.
func echo(t *testing.T, h *network.Host) string {
	var l net.Listener
	require.NoError(t, h.Do(func() (err error) {
		l, err = net.Listen("tcp", netip.AddrPortFrom(h.Addr, 0).String())
		return err
	}))
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

func dial(t *testing.T, from *network.Host, address string) net.Conn {
	var c net.Conn
	require.NoError(t, from.Do(func() (err error) {
		c, err = net.DialTimeout("tcp", address, limits.Stuck)
		return err
	}))
	t.Cleanup(func() { c.Close() })
	return c
}

// say sends a word, and expects it back in time.
func say(t *testing.T, c net.Conn, word string, limit time.Duration) error {
	require.NoError(t, c.SetDeadline(time.Now().Add(limit)))
	if _, err := io.WriteString(c, word); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, len(word)))
	return err
}

func TestNetwork(t *testing.T) {
	t.Parallel()
	n, hosts := network.New(t, 2)
	a, b := hosts[0], hosts[1]
	address := echo(t, b)
	far, near := dial(t, a, address), dial(t, n.Outside, address)
	expect := func(what string, c net.Conn, limit time.Duration, wanted error) {
		err := say(t, c, what, limit)
		assert.ErrorIs(t, err, wanted, "%s: %v, want %v", what, err, wanted)
	}
	expect("nothing is set", far, limits.Stuck, nil)
	n.Cut(b, a)
	expect("lost", far, 500*time.Millisecond, os.ErrDeadlineExceeded)
	expect("another host is not affected", near, limits.Stuck, nil)
	n.Heal()
	// What was lost is sent again. Then the connection has one word more than was read.
	require.NoError(t, far.SetDeadline(time.Now().Add(limits.Stuck)))
	_, err := io.ReadFull(far, make([]byte, len("lost")))
	require.NoError(t, err)
	n.Cut(b)
	expect("cut off", far, 300*time.Millisecond, os.ErrDeadlineExceeded)
	expect("the test itself is outside", near, limits.Stuck, nil)
	n.Cut(b, n.Outside)
	expect("the test is cut off", near, 300*time.Millisecond, os.ErrDeadlineExceeded)
	n.Heal()
}
