package mysqladmin

import (
	"context"
	"database/sql/driver"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/go-sql-driver/mysql"
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
		if err != nil {
			t.Fatal(err)
		}
		pinged := make(chan error)
		for range 3 {
			go func() { pinged <- p.PingContext(t.Context()) }()
		}
		synctest.Wait()
		if err := only.Close(); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := <-pinged; err != nil {
				t.Error(err)
			}
		}
		if only, err = p.Conn(t.Context()); err != nil {
			t.Fatal(err)
		}
		go func() { pinged <- p.PingContext(t.Context()) }()
		synctest.Wait()
		server.taken.Store(false)
		if err := <-pinged; err != nil {
			t.Errorf("once the server has room again: %v", err)
		}
		if err := only.Close(); err != nil {
			t.Error(err)
		}
	})
}
