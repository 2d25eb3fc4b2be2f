package mysqladmin

import "context"

// DatabaseSize is the bytes that the InnoDB tables of a database, indexes included, take on disk just now; 0 where
// there is no such database. The files do not shrink when rows are deleted.
// https://dev.mysql.com/doc/refman/8.4/en/information-schema-innodb-tablespaces-table.html
func (s *Server) DatabaseSize(ctx context.Context, name string) (bytes int64, err error) {
	flavour, err := s.Flavour(ctx)
	if err != nil {
		return 0, err
	}
	err = s.reads.QueryRowContext(ctx, dialects[flavour.Name].size, name).Scan(&bytes)
	return bytes, s.explain("size of database "+name, err)
}
