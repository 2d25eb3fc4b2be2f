package mysqladmin

import (
	"context"
	"database/sql"
)

// Databases lists all databases of the server that the broker's account may see, the server's own included.
func (s *Server) Databases(ctx context.Context) ([]string, error) {
	names, err := names(ctx, s.reads, "SHOW DATABASES")
	return names, s.explain("list the databases", err)
}

// Accounts lists the accounts that may log in from any host, as all accounts of CreateAccount may. It includes locked
// ones.
func (s *Server) Accounts(ctx context.Context) ([]string, error) {
	names, err := names(ctx, s.reads, "SELECT user FROM mysql.user WHERE host = '%'")
	return names, s.explain("list the accounts", err)
}

// queryer is a connection or a pool.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// names runs a query that returns names.
func names(ctx context.Context, on queryer, query string, args ...any) (names []string, err error) {
	rows, err := on.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

// readPairs reads a query with two columns, names and values.
func readPairs(ctx context.Context, on queryer, into map[string]string, query string) error {
	rows, err := on.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return err
		}
		into[name] = value
	}
	return rows.Err()
}
