package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Logs records the archives of binary logs.
type Logs struct{ *database }

// BinaryLog is the archive of the binary logs of a dedicated server.
type BinaryLog struct {
	ID         string
	InstanceID string // which may be deleted
	Server     string
	Launcher   string
	BeginFile  string
	BeginAt    int64
	File       string // File and Position: it is archived up to there
	Position   int64
	FileBegan  int64     // when the server began that file, in seconds since 1970; 0 if that is not known
	BeganAt    time.Time // by the server's clock, as is Until
	Until      time.Time // what was committed before is archived
	Bytes      int64
}

const binaryLogColumns = `id, instance_id, server, launcher, begin_file, begin_at, file, position, file_began, began_at,
	until, bytes`

var scanBinaryLog = pgx.RowToStructByPos[BinaryLog]

// Growing reads the growing archive of an instance, or returns ErrNotFound.
func (s Logs) Growing(ctx context.Context, instanceID string) (BinaryLog, error) {
	return oneRow(ctx, s.pool, scanBinaryLog, "SELECT "+binaryLogColumns+
		" FROM binary_log WHERE instance_id = $1 AND ended_at IS NULL", instanceID)
}

// Get reads an archive, or returns ErrNotFound.
func (s Logs) Get(ctx context.Context, id string) (BinaryLog, error) {
	return oneRow(ctx, s.pool, scanBinaryLog, "SELECT "+binaryLogColumns+" FROM binary_log WHERE id = $1", id)
}

// All lists the archives that are recorded.
func (s Logs) All(ctx context.Context) ([]BinaryLog, error) {
	return allRows(ctx, s.pool, scanBinaryLog, "SELECT "+binaryLogColumns+" FROM binary_log ORDER BY began_at")
}

// Begin records a new, growing archive, unless its instance already has one. It returns the recorded one.
func (s Logs) Begin(ctx context.Context, l BinaryLog) (BinaryLog, error) {
	err := s.exec(ctx, `INSERT INTO binary_log (id, instance_id, server, launcher, begin_file, begin_at, file,
			position, began_at, until, archived_at)
		VALUES ($1, $2, $3, $4, $5, $6, $5, $6, $7, $7, now())
		ON CONFLICT (instance_id) WHERE ended_at IS NULL DO NOTHING`, l.ID, l.InstanceID, l.Server, l.Launcher,
		l.BeginFile, l.BeginAt, l.BeganAt)
	if err != nil {
		return l, err
	}
	return s.Growing(ctx, l.InstanceID)
}

// Grow records that an archive has grown from one position to another. It returns ErrLeaseLost if another broker was
// faster.
func (s Logs) Grow(ctx context.Context, l BinaryLog, file string, position, began, bytes int64) error {
	return s.change(ctx, ErrLeaseLost, `UPDATE binary_log SET file = $4, position = $5, file_began = $6,
			bytes = bytes + $7
		WHERE id = $1 AND file = $2 AND position = $3 AND ended_at IS NULL`, l.ID, l.File, l.Position, file, position,
		began, bytes)
}

// RecordArchived records that what was committed before that time is archived.
func (s Logs) RecordArchived(ctx context.Context, id string, until time.Time) error {
	return s.exec(ctx, `UPDATE binary_log SET until = greatest(until, $2), archived_at = now()
		WHERE id = $1 AND ended_at IS NULL`, id, until)
}

// End records that an archive does not grow any more.
func (s Logs) End(ctx context.Context, id, reason string) error {
	return s.exec(ctx, "UPDATE binary_log SET ended_at = now(), end_reason = $2 WHERE id = $1 AND ended_at IS NULL",
		id, storable(reason))
}

// EndOf records that the growing archive of an instance, if there is one, does not grow any more.
func (s Logs) EndOf(ctx context.Context, instanceID, reason string) error {
	return s.exec(ctx, `UPDATE binary_log SET ended_at = now(), end_reason = $2
		WHERE instance_id = $1 AND ended_at IS NULL`, instanceID, storable(reason))
}

// Instances lists the ids of the ready instances of those plans that have a server of their own.
func (s Logs) Instances(ctx context.Context, plans []string) ([]string, error) {
	return allRows(ctx, s.pool, pgx.RowTo[string], `SELECT id FROM instance
		WHERE state = 'ready' AND location_kind = 'dedicated' AND plan_id = ANY ($1) ORDER BY created_at`, plans)
}

// Abandoned lists growing archives whose instance is gone, has another server, or has none of those plans.
func (s Logs) Abandoned(ctx context.Context, plans []string) ([]BinaryLog, error) {
	return allRows(ctx, s.pool, scanBinaryLog, "SELECT "+binaryLogColumns+` FROM binary_log l
		WHERE ended_at IS NULL AND NOT EXISTS (SELECT FROM instance i WHERE i.id = l.instance_id
			AND i.dedicated_id = l.server AND i.plan_id = ANY ($1))`, plans)
}

// logOrder sorts positions p of one archive. Their times are by the server's clock, which may be set back.
const (
	logNumber = `substring(p.file from '[0-9]+$')::numeric`
	logOrder  = logNumber + ", p.position"
)

// LogNeeded is an archive, and the first position in it that a backup needs.
type LogNeeded struct {
	BinaryLog
	EndedAgo      time.Duration // 0 if it grows
	Needed        bool          // by a backup
	FirstFile     string
	FirstPosition int64
}

// Needed lists all archives. The ones that have ended and that no backup needs can be deleted, unless a backup is
// being written.
func (s Logs) Needed(ctx context.Context) ([]LogNeeded, error) {
	return allRows(ctx, s.pool, pgx.RowToStructByPos[LogNeeded], "SELECT "+binaryLogColumns+`,
			coalesce(now() - ended_at, '0'), first_file IS NOT NULL, coalesce(first_file, ''), coalesce(first_position, 0)
		FROM binary_log l LEFT JOIN LATERAL (SELECT p.file, p.position FROM backup_position p WHERE p.log_id = l.id
			ORDER BY `+logOrder+` LIMIT 1) needed (first_file, first_position) ON true
		WHERE NOT EXISTS (SELECT FROM task t WHERE t.instance_id = l.instance_id AND t.state = 'in progress'
			AND t.kind IN ('`+BackUp+`', '`+Restore+`'))`)
}

// Forget deletes the record of an archive that has ended.
func (s Logs) Forget(ctx context.Context, id string) error {
	return s.exec(ctx, "DELETE FROM binary_log WHERE id = $1 AND ended_at IS NOT NULL", id)
}

// BackupPosition is where in an archive a backup was taken.
type BackupPosition struct {
	BackupID string
	LogID    string
	File     string
	Position int64
	TakenAt  time.Time
}

// MarkBackup records where in an archive a backup was taken.
func (t *Tx) MarkBackup(p BackupPosition) {
	t.change("record the position of a backup", `INSERT INTO backup_position (backup_id, log_id, file, position, taken_at)
		SELECT id, $2, $3, $4, $5 FROM backup WHERE id = $1 AND :allowed ON CONFLICT DO NOTHING`, p.BackupID, p.LogID, p.File,
		p.Position, p.TakenAt)
}

// Window is a time to which an instance can be restored: from when its backup was taken until its archive ends.
type Window struct {
	BackupID string
	LogID    string
	From     time.Time
	Until    time.Time
}

// Windows lists the windows of a backup, or of all backups of an instance that no verification has found to be damaged.
// Those of an archive are together, the last in its logs first; the latest archive is first, by PostgreSQL's clock, as
// each server has its own. Archives whose backups it recorded only before it was set back come last.
func (s Logs) Windows(ctx context.Context, backupOrInstance string) ([]Window, error) {
	return allRows(ctx, s.pool, pgx.RowToStructByPos[Window], `SELECT b.id, l.id, p.taken_at, l.until
		FROM backup b JOIN backup_position p ON p.backup_id = b.id JOIN binary_log l ON l.id = p.log_id
		WHERE b.state = 'complete' AND (b.id = $1 OR b.instance_id = $1 AND b.verify_error = '') AND p.taken_at <= l.until
		ORDER BY max(b.created_at) FILTER (WHERE b.created_at <= now() + $2::interval) OVER (PARTITION BY l.id)
			DESC NULLS LAST, l.id, `+logNumber+` DESC, p.position DESC`, backupOrInstance, ClockTolerance)
}

// LogStats are the figures of the archives that grow.
type LogStats struct {
	Bytes int64 // of all archives
	Ages  []BackupAge
}

// Stats returns, by plan, for how long changes have not been archived, for the instance whose archive is furthest
// behind. An instance without an archive counts with its own age.
func (s Logs) Stats(ctx context.Context, plans []string) (stats LogStats, err error) {
	if stats.Bytes, err = oneRow(ctx, s.pool, pgx.RowTo[int64],
		"SELECT coalesce(sum(bytes), 0)::bigint FROM binary_log"); err != nil {
		return stats, err
	}
	stats.Ages, err = allRows(ctx, s.pool, pgx.RowToStructByPos[BackupAge], `SELECT i.plan_id,
			greatest('0'::interval, max(now() - coalesce(CASE WHEN l.archived_at <= now() + $2::interval
				THEN l.archived_at END, l.until, i.created_at)))
		FROM instance i LEFT JOIN binary_log l ON l.instance_id = i.id AND l.ended_at IS NULL
		WHERE i.state = 'ready' AND i.location_kind = 'dedicated' AND i.plan_id = ANY ($1) GROUP BY i.plan_id`, plans,
		ClockTolerance)
	return stats, err
}

// Import records an archive that was found in the object store, unless it is recorded already. It has ended: if
// its server still runs, another one begins.
func (s Logs) Import(ctx context.Context, l BinaryLog) (imported bool, err error) {
	inserted, err := s.run(ctx, s.pool, `INSERT INTO binary_log (id, instance_id, server, launcher, begin_file, begin_at,
			file, position, began_at, until, bytes, ended_at, end_reason)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, now(), 'imported') ON CONFLICT (id) DO NOTHING`, l.ID,
		l.InstanceID, l.Server, l.Launcher, l.BeginFile, l.BeginAt, l.File, l.Position, l.BeganAt, l.Until, l.Bytes)
	return inserted == 1, err
}

// ImportMark records where in an archive an imported backup was taken.
func (s Logs) ImportMark(ctx context.Context, p BackupPosition) error {
	return s.inTx(ctx, func(tx *Tx) error {
		tx.MarkBackup(p)
		return nil
	})
}
