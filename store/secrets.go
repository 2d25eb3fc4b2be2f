package store

import (
	"context"
	"fmt"
)

// FenceKey reads the key that every broker on this database names its locks on MySQL servers with.
func (s *Store) FenceKey(ctx context.Context) ([]byte, error) {
	var key []byte
	if err := s.pool.QueryRow(ctx, "SELECT value::bytea FROM secret WHERE name = 'fence'").Scan(&key); err != nil {
		return nil, fmt.Errorf("read the key of the fences: %w", explainOldSchema(err))
	}
	return key, nil
}
