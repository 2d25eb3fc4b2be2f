package mysqladmin

import (
	"context"
	"database/sql"
	"errors"
)

// KeepReserve sees to it that a connection for sessions and one for reads are open, so that the broker has them when
// others have taken all that the server allows. Call it more often than idle connections are closed. Where none is left
// to be had, the one for sessions comes first: servers let an account with CONNECTION_ADMIN in once beyond
// max_connections. https://dev.mysql.com/doc/refman/8.4/en/too-many-connections.html
func (s *Server) KeepReserve(ctx context.Context) error {
	return s.explain("keep connections in reserve", errors.Join(keepOne(ctx, s.sessions), keepOne(ctx, s.reads)))
}

func keepOne(ctx context.Context, pool *sql.DB) error {
	if stats := pool.Stats(); stats.InUse == stats.MaxOpenConnections {
		return nil // a ping would wait
	}
	return pool.PingContext(ctx)
}
