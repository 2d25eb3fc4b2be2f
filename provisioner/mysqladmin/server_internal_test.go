package mysqladmin

import (
	"context"
	"database/sql/driver"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// full is a server that has one connection left.
type full struct{ taken atomic.Bool }

func (f *full) Driver() driver.Driver { return nil }

func (f *full) Connect(context.Context) (driver.Conn, error) {
	if f.taken.Swap(true) {
		return nil, &mysql.MySQLError{Number: errTooManyConnections}
	}
	return connected{}, nil
}

type connected struct{ driver.Conn }

func (connected) Close() error { return nil }

// Whoever needs a connection to a full server waits for the one that the broker has there, and gets it from whoever has
// it now.
func TestPoolOfAFullServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &full{}
		p := newPool(server, 3)
		defer p.Close()
		only, err := p.Conn(t.Context())
		require.NoError(t, err)
		pinged := make(chan error)
		for range 3 {
			go func() { pinged <- p.PingContext(t.Context()) }()
		}
		synctest.Wait()
		require.NoError(t, only.Close())
		for range 3 {
			assert.NoError(t, <-pinged)
		}
		only, err = p.Conn(t.Context())
		require.NoError(t, err)
		go func() { pinged <- p.PingContext(t.Context()) }()
		synctest.Wait()
		server.taken.Store(false)
		assert.NoError(t, <-pinged, "once the server has room again")
		assert.NoError(t, only.Close())
	})
}
