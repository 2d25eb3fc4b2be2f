package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// ExpiredBinding is a binding that has expired by PostgreSQL's clock.
type ExpiredBinding struct {
	InstanceID string
	ID         string
	Account    string
	Since      time.Duration
}

// Expired lists up to limit expired bindings that no task is ending, the first to expire first.
func (s Bindings) Expired(ctx context.Context, limit int) ([]ExpiredBinding, error) {
	return allRows(ctx, s.pool, pgx.RowToStructByPos[ExpiredBinding], `
		SELECT b.instance_id, b.id, b.account, now() - b.expires_at FROM binding b
		WHERE b.expires_at <= now() AND NOT EXISTS (SELECT FROM task t WHERE t.instance_id = b.instance_id
			AND t.binding_id = b.id AND t.state = 'in progress')
		ORDER BY b.expires_at LIMIT $1`, limit)
}

const expiredBinding = "SELECT FROM expired_binding WHERE instance_id = $1 AND id = $2"

// RecordExpired records for its platform that a binding has ended by itself. Call it before DeleteBinding.
func (t *Tx) RecordExpired(instanceID, id string) {
	t.change("record that the binding has expired", `INSERT INTO expired_binding (instance_id, id, expired_at)
		SELECT instance_id, id, coalesce(expires_at, now()) FROM binding WHERE instance_id = $1 AND id = $2 AND :allowed
		ON CONFLICT DO NOTHING`, instanceID, id)
}

// HasExpired reports whether a binding has ended by itself, and its platform has not deleted it yet.
func (s Bindings) HasExpired(ctx context.Context, instanceID, id string) (bool, error) {
	return oneRow(ctx, s.pool, pgx.RowTo[bool], "SELECT EXISTS ("+expiredBinding+")", instanceID, id)
}

const forgetExpired = "DELETE FROM expired_binding WHERE instance_id = $1 AND id = $2 RETURNING true"

// ForgetExpired deletes the record of a binding that has ended by itself, when the platform deletes the binding. It
// reports whether there was one.
func (t *Tx) ForgetExpired(ctx context.Context, instanceID, id string) (found bool, err error) {
	err = read(ctx, t, statementTime, &found, pgx.RowTo[bool], forgetExpired, instanceID, id)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return found, err
}

// ForgetExpired is Tx.ForgetExpired outside of a transaction.
func (s Bindings) ForgetExpired(ctx context.Context, instanceID, id string) error {
	_, err := s.db.Exec(ctx, forgetExpired, instanceID, id)
	return err
}

// DeleteExpired deletes records of bindings that ended by themselves longer than age ago, and returns how many. A
// platform that deletes such a binding only then is told that there is none.
func (s Bindings) DeleteExpired(ctx context.Context, age time.Duration) (deleted int64, err error) {
	tag, err := s.db.Exec(ctx, "DELETE FROM expired_binding WHERE ended_at < now() - $1::interval", age)
	return tag.RowsAffected(), err
}

// overdueExpiry is by how many seconds the most overdue binding has outlived its time.
const overdueExpiry = `SELECT coalesce(extract(epoch FROM greatest(now() - min(expires_at), '0'::interval)), 0)::float8
	FROM binding WHERE expires_at IS NOT NULL`
