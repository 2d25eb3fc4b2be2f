package mysqladmin

import "context"

// Connections are the figures of a server's connections.
type Connections struct {
	Open int // now, the broker's own included
	Max  int // that the server allows
}

// Connections reads the figures of the server's connections. Any account may read them.
// https://dev.mysql.com/doc/refman/8.4/en/server-status-variables.html#statvar_Threads_connected
func (s *Server) Connections(ctx context.Context) (c Connections, err error) {
	err = s.reads.QueryRowContext(ctx, "SELECT @@GLOBAL.max_connections").Scan(&c.Max)
	if err == nil {
		var name string
		err = s.reads.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Threads_connected'").Scan(&name, &c.Open)
	}
	return c, s.explain("count the server's connections", err)
}
