package mysqladmin

import (
	"context"
	"database/sql"
	"errors"
)

// KeepReserve keeps a connection for sessions and one for reads open, so that the broker has them when others use all
// that the server allows. Call it more often than idle connections are closed. It begins with the one for sessions,
// because a full server accepts one connection beyond max_connections from an account with CONNECTION_ADMIN.
// https://dev.mysql.com/doc/refman/8.4/en/too-many-connections.html
func (s *Server) KeepReserve(ctx context.Context) error {
	return s.explain("keep connections in reserve", errors.Join(keepOne(ctx, s.sessions), keepOne(ctx, s.reads)))
}

func keepOne(ctx context.Context, pool *sql.DB) error {
	if stats := pool.Stats(); stats.InUse == stats.MaxOpenConnections {
		return nil // a ping would wait
	}
	return pool.PingContext(ctx)
}
