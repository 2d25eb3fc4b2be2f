package mysqladmin

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"sync"

	"github.com/go-sql-driver/mysql"
)

// Login is an account and its password.
type Login struct{ User, Password string }

// OpenDatabase prepares connections, outside of the broker's pools, whose default database is the given one: as an
// account that the broker made, or as the broker itself (nil). Their sessions have the server's limits on waits, and
// may send statements of any length. Of a cluster, all of them are to the node that is the primary when the first is
// opened: what is read in several of them at once must come from one node. The caller closes the result.
func (s *Server) OpenDatabase(database string, as *Login) (*sql.DB, error) {
	cfg, err := s.config.driver()
	if err != nil {
		return nil, err
	}
	cfg.DBName, cfg.MaxAllowedPacket = database, 1<<30-1
	if as != nil {
		cfg.User, cfg.Passwd = as.User, as.Password
	}
	if s.nodes != nil {
		return sql.OpenDB(&primaryConnector{server: s, cfg: cfg}), nil
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("server %s: %w", s.name, err)
	}
	return sql.OpenDB(connector), nil
}

// primaryConnector connects to the node of a cluster that was the primary at the first connection.
type primaryConnector struct {
	server *Server
	cfg    *mysql.Config

	mu     sync.Mutex
	chosen driver.Connector
}

// Connect implements driver.Connector.
func (c *primaryConnector) Connect(ctx context.Context) (driver.Conn, error) {
	connector, err := c.choose(ctx)
	if err != nil {
		return nil, err
	}
	return connector.Connect(ctx)
}

func (c *primaryConnector) choose(ctx context.Context) (driver.Connector, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.chosen != nil {
		return c.chosen, nil
	}
	if err := c.server.Ping(ctx); err != nil { // which finds the primary
		return nil, err
	}
	primary, _ := c.server.nodes.state()
	c.cfg.Addr = c.server.nodes.all[primary].addr
	var err error
	c.chosen, err = mysql.NewConnector(c.cfg)
	return c.chosen, err
}

// Driver implements driver.Connector.
func (c *primaryConnector) Driver() driver.Driver { return mysql.MySQLDriver{} }

// CanTake reports whether a server of this flavour can hold all that one of the other flavour holds: it is of the same
// flavour, and its major and minor version are not older.
func (f Flavour) CanTake(of Flavour) bool {
	var major, minor int
	_, _ = fmt.Sscanf(of.Version, "%d.%d", &major, &minor) // parseVersion has read it
	return f.Name == of.Name && !f.before(major, minor, 0)
}
