package mysqladmin

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/go-sql-driver/mysql"
)

// CheckLogin opens a new connection with cfg and that default database, runs a query and closes the connection. It
// proves that credentials work before the broker returns them.
func CheckLogin(ctx context.Context, cfg Config, database string) error {
	connector, err := cfg.connector(database)
	if err == nil {
		db := sql.OpenDB(connector)
		defer func() { _ = db.Close() }() // nothing is lost with a connection that only read
		err = db.QueryRowContext(ctx, "SELECT 1").Scan(new(int))
	}
	return explain("log in as "+cfg.User+" at "+cfg.Addr, err)
}

// Exec runs one statement on a new connection.
func Exec(ctx context.Context, cfg Config, statement string) error {
	return ExecIf(ctx, cfg, statement, func() error { return nil })
}

// idleSeconds is shorter than what remains of a task's lease after its last renewal.
const idleSeconds = 5

// ExecIf is Exec if check returns nil. check is called on an open connection, which the server closes if the statement
// does not follow soon. So the statement of a broker that was paused after the check, and has lost its lease, fails.
func ExecIf(ctx context.Context, cfg Config, statement string, check func() error) error {
	connector, err := cfg.connector("")
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer func() { _ = db.Close() }() // the statement's outcome is known
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("server %s: %w", cfg.Name, err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(ctx, fmt.Sprintf("SET SESSION wait_timeout = %d", idleSeconds)); err != nil {
		return fmt.Errorf("server %s: limit a session: %w", cfg.Name, err)
	}
	if err := check(); err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, statement); err != nil {
		return fmt.Errorf("server %s: %s: %w", cfg.Name, statement, err)
	}
	return nil
}

// Login is an account and its password.
type Login struct {
	User, Password string
	Limit          *ResponseLimit // nil for none
}

// ResponseLimit limits the bytes of the response to a statement: the driver has a whole row in memory, also of a result
// that nobody reads.
type ResponseLimit struct {
	Bytes    int64
	exceeded atomic.Bool
}

// Exceeded reports whether a response was longer. The connection has ended then.
func (l *ResponseLimit) Exceeded() bool { return l.exceeded.Load() }

func (l *ResponseLimit) dial(through Dialer) Dialer {
	if through == nil {
		through = new(net.Dialer).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := through(ctx, network, address)
		return &limitedConn{Conn: conn, limit: l, left: l.Bytes}, err
	}
}

// limitedConn ends with an error after a limit of bytes was read since the last write.
type limitedConn struct {
	net.Conn
	limit *ResponseLimit
	left  int64
}

func (c *limitedConn) Write(p []byte) (int, error) {
	c.left = c.limit.Bytes
	return c.Conn.Write(p)
}

func (c *limitedConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		c.limit.exceeded.Store(true)
		return 0, errors.New("the response is too long")
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

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
		if as.Limit != nil {
			cfg.DialFunc = as.Limit.dial(cfg.DialFunc)
		}
	}
	if s.nodes != nil {
		return sql.OpenDB(&primaryConnector{server: s, cfg: cfg}), nil
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("server %s: %w", s.config.Name, err)
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
	n := of.numbers()
	return f.Name == of.Name && !f.before(n[0], n[1], 0)
}

// KeepReserve keeps a connection for sessions and one for reads open, so that the broker has them when others use all
// that the server allows. Call it more often than idle connections are closed. It begins with the one for sessions,
// because a full server accepts one connection beyond max_connections from an account with CONNECTION_ADMIN.
// https://dev.mysql.com/doc/refman/8.4/en/too-many-connections.html
func (s *Server) KeepReserve(ctx context.Context) error {
	return s.explain("keep connections in reserve", errors.Join(keepOne(ctx, s.sessions), keepOne(ctx, s.reads)))
}

func keepOne(ctx context.Context, pool *pool) error {
	if stats := pool.Stats(); stats.InUse == stats.MaxOpenConnections {
		return nil // a ping would wait
	}
	return pool.PingContext(ctx)
}
