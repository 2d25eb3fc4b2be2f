package mysqladmin

import (
	"cmp"
	"context"
	"crypto/tls"
	"database/sql"
	"fmt"
	"time"

	"mysql-broker/provisioner/binlog"
)

// BinaryLogs describes the binary logs that a server has.
type BinaryLogs struct {
	On    bool
	Now   time.Time        // by the server's clock, before End was read: what was committed until then is before End
	First string           // the oldest file
	Files map[string]int64 // bytes by name
	End   binlog.Position
	Bytes int64 // of all files
}

// Files lists the binary logs of a server.
func (on BinaryLog) Files(ctx context.Context) (l BinaryLogs, err error) {
	var micros int64
	err = on.s.reads.QueryRowContext(ctx, `SELECT @@GLOBAL.log_bin,
		TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))`).Scan(&l.On, &micros)
	if err != nil || !l.On {
		return l, on.s.explain("list the binary logs", err)
	}
	l.Now, l.Files = time.UnixMicro(micros).UTC(), map[string]int64{}
	err = EachRow(ctx, on.s.reads, "SHOW BINARY LOGS", func(rows *sql.Rows) error {
		columns, err := rows.Columns()
		if err == nil {
			err = rows.Scan([]any{&l.End.File, &l.End.Offset, new(sql.RawBytes)}[:min(3, len(columns))]...)
		}
		l.First = cmp.Or(l.First, l.End.File)
		l.Files[l.End.File] = l.End.Offset
		l.Bytes += l.End.Offset
		return err
	})
	return l, on.s.explain("list the binary logs", err)
}

// Purge deletes the binary logs before a file.
func (on BinaryLog) Purge(ctx context.Context, to string) error {
	_, err := on.s.reads.ExecContext(ctx, "PURGE BINARY LOGS TO ?", to)
	return on.s.explain("purge the binary logs", err)
}

// Dump sends the binary logs from a position on to a sink, up to their present end.
func (on BinaryLog) Dump(ctx context.Context, from binlog.Position, to binlog.Sink) error {
	cfg, err := on.s.config.driver()
	if err != nil {
		return err
	}
	l := binlog.Login{Addr: on.s.config.Addr, User: on.s.config.User, Password: on.s.config.Password, TLS: cfg.TLS,
		Dial: on.s.config.Dial}
	if l.TLS == nil { // as the driver does for a server whose CA is not known
		l.TLS = &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} // #nosec G402 -- see above
	}
	return on.s.explain("read the binary logs", binlog.Dump(ctx, l, from, to))
}

// ReplayLimits are settings that a server has only while binary logs are replayed on it.
type ReplayLimits struct {
	server *Server
	conn   *sql.Conn
}

// replayPacket is the largest max_allowed_packet. An event has up to two images of a row, and is sent as Base64.
const replayPacket = 1 << 30

// PrepareReplay stops the events of a dedicated server, and lets it take statements of any length, until Restore is
// called. If that does not happen, both stay until the server starts again.
func (on BinaryLog) PrepareReplay(ctx context.Context) (l *ReplayLimits, err error) {
	l = &ReplayLimits{server: on.s}
	if l.conn, err = on.s.reads.Conn(ctx); err != nil {
		return nil, on.s.explain("prepare a replay", err)
	}
	// The connection idles until Restore. If the server ended it, the replay would fail at its end.
	_, err = l.conn.ExecContext(ctx, fmt.Sprintf("SET GLOBAL event_scheduler = OFF, GLOBAL max_allowed_packet = %d, "+
		"SESSION wait_timeout = 31536000", replayPacket))
	if err != nil {
		l.Close()
		return nil, on.s.explain("prepare a replay", err)
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
