package mysqladmin

import (
	"context"
	"crypto/tls"
	"database/sql"
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

// BinaryLogs lists the binary logs of a server.
func (s *Server) BinaryLogs(ctx context.Context) (l BinaryLogs, err error) {
	conn, err := s.reads.Conn(ctx)
	if err != nil {
		return l, s.explain("list the binary logs", err)
	}
	defer func() { _ = conn.Close() }() // it only returns to its pool
	err = readBinaryLogs(ctx, conn, &l)
	return l, s.explain("list the binary logs", err)
}

func readBinaryLogs(ctx context.Context, conn *sql.Conn, l *BinaryLogs) error {
	var micros int64
	err := conn.QueryRowContext(ctx, `SELECT @@GLOBAL.log_bin,
		TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))`).Scan(&l.On, &micros)
	if err != nil || !l.On {
		return err
	}
	l.Now, l.Files = time.UnixMicro(micros).UTC(), map[string]int64{}
	rows, err := conn.QueryContext(ctx, "SHOW BINARY LOGS")
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	var other sql.RawBytes
	for rows.Next() {
		into := []any{&l.End.File, &l.End.Offset, &other}[:min(3, len(columns))]
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if l.First == "" {
			l.First = l.End.File
		}
		l.Files[l.End.File] = l.End.Offset
		l.Bytes += l.End.Offset
	}
	return rows.Err()
}

// PurgeBinaryLogs deletes the binary logs before a file.
func (s *Server) PurgeBinaryLogs(ctx context.Context, to string) error {
	_, err := s.reads.ExecContext(ctx, "PURGE BINARY LOGS TO ?", to)
	return s.explain("purge the binary logs", err)
}

// DumpBinaryLogs sends the binary logs from a position on to a sink, up to their present end.
func (s *Server) DumpBinaryLogs(ctx context.Context, from binlog.Position, to binlog.Sink) error {
	cfg, err := s.config.driver()
	if err != nil {
		return err
	}
	l := binlog.Login{Addr: s.config.Addr, User: s.config.User, Password: s.config.Password, TLS: cfg.TLS,
		Dial: s.config.Dial}
	if l.TLS == nil { // as the driver does for a server whose CA is not known
		l.TLS = &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} // #nosec G402 -- see above
	}
	return s.explain("read the binary logs", binlog.Dump(ctx, l, from, to))
}
