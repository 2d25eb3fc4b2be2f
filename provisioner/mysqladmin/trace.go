package mysqladmin

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// traced opens connections that record a span for each statement whose context has a trace.
type traced struct {
	driver.Connector
	server string // host:port
}

// tracedConn is a connection of a traced connector.
type tracedConn struct {
	mysqlConn
	server string
}

// mysqlConn lists the optional interfaces of the driver's connections that database/sql uses.
type mysqlConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

func (t traced) Connect(ctx context.Context) (driver.Conn, error) {
	ctx, span := startSpan(ctx, t.server, "connect", "")
	conn, err := t.Connector.Connect(ctx)
	endSpan(span, err)
	if err != nil {
		return nil, err
	}
	return tracedConn{conn.(mysqlConn), t.server}, nil
}

func (c tracedConn) ExecContext(ctx context.Context, statement string,
	args []driver.NamedValue) (driver.Result, error) {
	ctx, span := startSpan(ctx, c.server, "", statement)
	result, err := c.mysqlConn.ExecContext(ctx, statement, args)
	endSpan(span, err)
	return result, err
}

func (c tracedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	ctx, span := startSpan(ctx, c.server, "", query)
	rows, err := c.mysqlConn.QueryContext(ctx, query, args)
	endSpan(span, err)
	return rows, err
}

// startSpan starts a span of the trace that ctx belongs to, if any. The first word of a statement is the name of the
// span. The arguments are not in the statement. https://opentelemetry.io/docs/specs/semconv/database/database-spans/
func startSpan(ctx context.Context, server, name, statement string) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, nil
	}
	attributes := []attribute.KeyValue{attribute.String("db.system.name", "mysql"),
		attribute.String("server.address", server)}
	if statement != "" {
		name, _, _ = strings.Cut(statement, " ")
		attributes = append(attributes, attribute.String("db.query.text", statement))
	}
	return parent.TracerProvider().Tracer("mysql-broker/provisioner/mysqladmin").Start(ctx, name,
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
}

// endSpan leaves out a server's message, which can quote the statement with its arguments.
func endSpan(span trace.Span, err error) {
	if span == nil {
		return
	}
	if refused, ok := errors.AsType[*mysql.MySQLError](err); ok {
		span.SetStatus(codes.Error, fmt.Sprintf("MySQL error %d (%s)", refused.Number, refused.SQLState[:]))
	} else if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}
