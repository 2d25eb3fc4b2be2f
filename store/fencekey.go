package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// FenceKey reads the key that every broker on this database names its locks on MySQL servers with.
func (s *Store) FenceKey(ctx context.Context) ([]byte, error) {
	key, err := oneRow(ctx, s.pool, pgx.RowTo[[]byte], "SELECT value::bytea FROM secret WHERE name = 'session lock'")
	if err != nil {
		return nil, fmt.Errorf("read the key of the fences: %w", explainOldSchema(err))
	}
	return key, nil
}
