package mysqladmin

import (
	"context"
	"database/sql"
	"fmt"
)

// ReplayLimits are settings that a server has only while binary logs are replayed on it.
type ReplayLimits struct {
	server *Server
	conn   *sql.Conn
}

// replayPacket is the largest max_allowed_packet. An event has up to two images of a row, and is sent as Base64.
const replayPacket = 1 << 30

// PrepareReplay stops the events of a dedicated server, and lets it take statements of any length, until Restore is
// called. If that does not happen, both stay until the server starts again.
func (s *Server) PrepareReplay(ctx context.Context) (l *ReplayLimits, err error) {
	l = &ReplayLimits{server: s}
	if l.conn, err = s.reads.Conn(ctx); err != nil {
		return nil, s.explain("prepare a replay", err)
	}
	// The connection idles until Restore. If the server ended it, the replay would fail at its end.
	_, err = l.conn.ExecContext(ctx, fmt.Sprintf("SET GLOBAL event_scheduler = OFF, GLOBAL max_allowed_packet = %d, "+
		"SESSION wait_timeout = 31536000", replayPacket))
	if err != nil {
		l.Close()
		return nil, s.explain("prepare a replay", err)
	}
	return l, nil
}

// Restore puts the settings back. packet is max_allowed_packet, in bytes.
func (l *ReplayLimits) Restore(ctx context.Context, packet int) error {
	_, err := l.conn.ExecContext(ctx, fmt.Sprintf("SET GLOBAL max_allowed_packet = %d, GLOBAL event_scheduler = ON",
		packet))
	return l.server.explain("end a replay", err)
}

// Close returns the connection.
func (l *ReplayLimits) Close() { _ = l.conn.Close() }
