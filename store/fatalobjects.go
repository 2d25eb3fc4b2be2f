package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// FatalObjects records objects of instances at whose definition a server may have ended.
type FatalObjects struct{ *database }

// Record records that the connection to a server was lost after it was asked for an object, some time ago.
func (s FatalObjects) Record(ctx context.Context, instanceID, version, object string, ago time.Duration) error {
	_, err := s.db.Exec(ctx, `INSERT INTO fatal_object
		SELECT id, $3, $2, now() - $4::interval FROM instance WHERE id = $1
		ON CONFLICT (instance_id, object) DO UPDATE SET version = excluded.version, asked_at = excluded.asked_at`,
		instanceID, version, object, ago)
	return err
}

// List lists the objects of an instance of which a server of that version, which runs for uptime, was asked before it
// began.
func (s FatalObjects) List(ctx context.Context, instanceID, version string, uptime time.Duration) ([]string, error) {
	return allRows(ctx, s.pool, pgx.RowTo[string], `SELECT object FROM fatal_object
		WHERE instance_id = $1 AND version = $2 AND asked_at < now() - $3::interval ORDER BY 1`,
		instanceID, version, uptime)
}

// Forget forgets the objects of an instance.
func (s FatalObjects) Forget(ctx context.Context, instanceID string) error {
	_, err := s.db.Exec(ctx, "DELETE FROM fatal_object WHERE instance_id = $1", instanceID)
	return err
}
