package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Backups records the backups in the object store, and finds which to take, verify and delete.
type Backups struct{ *database }

// States of a backup. Only statements here name the third, 'deleting': some of it may be deleted.
const (
	BackupInProgress = "in progress"
	BackupComplete   = "complete"
)

// Backup is a backup in the object store. Tasks remember it as JSON, by the names of its fields.
type Backup struct {
	ID               string // the broker's own
	InstanceID       string // which may be deleted
	InstanceName     string // "" if the platform sent none
	ServiceID        string
	PlanID           string
	Platform         string // to whom it belongs
	OrganizationGUID string
	SpaceGUID        string
	Reason           string
	State            string
	Flavour          string
	Version          string
	CreatedAt        time.Time
	TakenAt          *time.Time // the data is not older than this; nil until it is complete
	FinishedAt       *time.Time // by the clock of the broker's host, unlike all others
	KeepUntil        time.Time
	DataBytes        int64 // of the database
	Bytes            int64 // in the object store
	Tables           int64
	Rows             int64
	VerifiedAt       *time.Time
	VerifyError      string
	VerifyRefused    string // why the settings of a shared server did not let it be verified
}

const backupColumns = `id, instance_id, instance_name, service_id, plan_id, platform, organization_guid, space_guid,
	reason, state, flavour, version, created_at, taken_at, finished_at, keep_until, data_bytes, bytes, tables, table_rows,
	verified_at, verify_error, verify_refused`

var scanBackup = pgx.RowToStructByPos[Backup]

// InsertBackup records a backup before it is written.
func (t *Tx) InsertBackup(b Backup, keep time.Duration) {
	t.write("record a backup", `INSERT INTO backup (id, instance_id, instance_name, service_id, plan_id, platform,
			organization_guid, space_guid, reason, state, keep_until)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'in progress', `+laterOf("$11")+` + $10::interval)`, b.ID,
		b.InstanceID, b.InstanceName, b.ServiceID, b.PlanID, b.Platform, b.OrganizationGUID, b.SpaceGUID, b.Reason, keep,
		time.Now())
}

// CompleteBackup records that a backup was written.
func (t *Tx) CompleteBackup(b Backup) {
	t.change("complete a backup", `UPDATE backup SET state = 'complete', flavour = $2, version = $3, taken_at = $4,
			finished_at = $5, data_bytes = $6, bytes = $7, tables = $8, table_rows = $9
		WHERE id = $1 AND :allowed`, b.ID, b.Flavour, b.Version, b.TakenAt, b.FinishedAt, b.DataBytes, b.Bytes, b.Tables,
		b.Rows)
}

// RecordWritten is CompleteBackup, and MarkBackup unless mark is nil, for a task that goes on. It returns ErrLeaseLost
// if another worker may have the task.
func (s Backups) RecordWritten(ctx context.Context, l Lease, b Backup, mark *BackupPosition) error {
	return s.underLease(ctx, l, func(tx *Tx) {
		tx.CompleteBackup(b)
		if mark != nil {
			tx.MarkBackup(*mark)
		}
	})
}

// ForgetUnfinished deletes the record of a backup that was not completed and has left nothing.
func (s Backups) ForgetUnfinished(ctx context.Context, id string) error {
	return s.exec(ctx, "DELETE FROM backup WHERE id = $1 AND state = 'in progress'", id)
}

// Get reads one backup, or returns ErrNotFound.
func (s Backups) Get(ctx context.Context, id string) (Backup, error) {
	return oneRow(ctx, s.pool, scanBackup, "SELECT "+backupColumns+" FROM backup WHERE id = $1", id)
}

// Of lists the backups of an instance, or all for "", the latest first.
func (s Backups) Of(ctx context.Context, instanceID string) ([]Backup, error) {
	return allRows(ctx, s.pool, scanBackup, "SELECT "+backupColumns+` FROM backup
		WHERE $1 = '' OR instance_id = $1 ORDER BY created_at DESC, id`, instanceID)
}

// Find finds the complete backup of that id or, if it is the id of an instance, its latest verified one. If none
// is verified, it is the latest that no verification has found to be damaged. Which is the latest is by PostgreSQL's
// clock; those that it recorded before it was set back come last.
func (s Backups) Find(ctx context.Context, backupOrInstance string) (Backup, error) {
	return oneRow(ctx, s.pool, scanBackup, "SELECT "+backupColumns+` FROM backup
		WHERE state = 'complete' AND (id = $1 OR instance_id = $1 AND verify_error = '')
		ORDER BY id = $1 DESC, verified_at IS NULL, created_at > now() + $2::interval, created_at DESC LIMIT 1`,
		backupOrInstance, ClockTolerance)
}

// BackupSchedule says how often the instances of a plan are backed up.
type BackupSchedule struct {
	PlanID string
	Every  time.Duration
}

// backupPause is how long after an attempt the next scheduled backup of an instance begins at the earliest.
const backupPause = time.Hour

// ClockTolerance is how far two clocks may be apart that agree, and how far in the future a time may be that
// PostgreSQL's clock has recorded, before it counts as one of a clock that has been set back.
const ClockTolerance = time.Hour

// Due lists the ids of ready instances whose latest backup is older than the schedule of their plan says, or
// whose archive of binary logs has no backup to begin with, those with the oldest first. With the backups that are in
// progress they are at most max. After a restore in place, an instance is due at once: its latest backup is of what was
// replaced. Frozen instances, whose data is a mixture, are not among them: the latest backup is kept whatever its age,
// and must be one of good data. What was recorded before PostgreSQL's clock was set back puts nothing off.
func (s Backups) Due(ctx context.Context, schedules []BackupSchedule, max int) ([]string, error) {
	plans, every := make([]string, len(schedules)), make([]time.Duration, len(schedules))
	for n, p := range schedules {
		plans[n], every[n] = p.PlanID, p.Every
	}
	return allRows(ctx, s.pool, pgx.RowTo[string], `SELECT i.id
		FROM instance i JOIN unnest($1::text[], $2::interval[]) AS p (plan_id, every) USING (plan_id)
		WHERE i.state = 'ready' AND i.frozen_since IS NULL
			AND NOT EXISTS (SELECT FROM backup b WHERE b.instance_id = i.id AND b.state <> 'deleting'
				AND b.created_at BETWEEN now() - p.every AND now() + $5::interval AND b.reason <> 'restore'
				AND NOT EXISTS (SELECT FROM backup r WHERE r.instance_id = i.id AND r.reason = 'restore'
					AND r.state = 'complete' AND r.created_at BETWEEN b.created_at AND now() + $5::interval)
				AND NOT EXISTS (SELECT FROM binary_log l WHERE l.instance_id = i.id AND l.ended_at IS NULL
					AND NOT EXISTS (SELECT FROM backup_position o WHERE o.log_id = l.id) AND b.state = 'complete'))
			AND NOT EXISTS (SELECT FROM task t WHERE t.instance_id = i.id AND t.binding_id = ''
				AND (t.state = 'in progress' OR t.kind = '`+BackUp+`'
					AND t.created_at BETWEEN now() - least(p.every, $4::interval) AND now() + $5::interval))
		ORDER BY (SELECT max(b.created_at) FROM backup b
			WHERE b.instance_id = i.id AND b.created_at <= now() + $5::interval) NULLS FIRST, i.created_at
		LIMIT greatest(0, $3 - (SELECT count(*) FROM task WHERE state = 'in progress' AND kind = 'backup'))`,
		plans, every, max, backupPause, ClockTolerance)
}

// unused is the condition for a backup b that no task in progress writes or reads.
const unused = `NOT EXISTS (SELECT FROM task t WHERE t.state = 'in progress'
	AND b.id IN (t.request->>'backup', t.request->>'restore_backup'))`

// Expired lists backups that are to be deleted: whose days are over, and which no task will complete. Of an
// instance that is still there, the latest complete backup is not among them, nor the latest verified one. A backup is
// later only if both PostgreSQL's clock and those of the brokers' hosts say so.
func (s Backups) Expired(ctx context.Context) ([]Backup, error) {
	return allRows(ctx, s.pool, scanBackup, "SELECT "+backupColumns+` FROM backup b
		WHERE `+unused+` AND (state <> 'complete' OR keep_until <= now()
			AND (NOT EXISTS (SELECT FROM instance i WHERE i.id = b.instance_id)
				OR EXISTS (SELECT FROM backup newer WHERE newer.instance_id = b.instance_id AND newer.state = 'complete'
					AND newer.verify_error = '' AND newer.finished_at > b.finished_at AND newer.created_at > b.created_at
					AND (b.verified_at IS NULL OR b.verify_error <> '' OR newer.verified_at IS NOT NULL))))
		ORDER BY keep_until`)
}

// BeginDeletion records that a backup is being deleted, so that it is not restored any more. It returns
// ErrNotFound if a task has begun to use it.
func (s Backups) BeginDeletion(ctx context.Context, id string) error {
	return s.change(ctx, ErrNotFound, "UPDATE backup b SET state = 'deleting' WHERE id = $1 AND "+unused, id)
}

// EndDeletion deletes the record of a backup whose objects are gone.
func (s Backups) EndDeletion(ctx context.Context, id string) error {
	return s.exec(ctx, "DELETE FROM backup WHERE id = $1 AND state = 'deleting'", id)
}

// Keep changes until when a backup is kept.
func (s Backups) Keep(ctx context.Context, id string, until time.Time) error {
	return s.exec(ctx, "UPDATE backup SET keep_until = $2 WHERE id = $1", id, until)
}

// refusedPause is how long after settings of a shared server refused a backup it is verified again at the earliest.
const refusedPause = 24 * time.Hour

// Unverified lists complete backups that were not verified yet, the latest first, without those that settings
// refused less than a day ago, and those that a task in progress may verify.
func (s Backups) Unverified(ctx context.Context) ([]Backup, error) {
	return allRows(ctx, s.pool, scanBackup, "SELECT "+backupColumns+" FROM backup b WHERE "+unused+`
			AND state = 'complete' AND verified_at IS NULL AND verify_error = ''
			AND (verify_refused_at IS NULL OR verify_refused_at <= now() - $1::interval
				OR verify_refused_at > now() + $2::interval) ORDER BY taken_at DESC`, refusedPause, ClockTolerance)
}

// RecordVerification records that a backup was verified or, if problem is not empty, why it cannot be restored.
func (s Backups) RecordVerification(ctx context.Context, id, problem string) error {
	return s.exec(ctx, `UPDATE backup SET verify_error = $2, verify_refused = '', verify_refused_at = NULL,
		verified_at = CASE WHEN $2 = '' THEN now() ELSE verified_at END WHERE id = $1`, id, storable(problem))
}

// RecordRefusal records that the settings of a shared server refused a backup, so that it was not verified.
func (s Backups) RecordRefusal(ctx context.Context, id, why string) error {
	return s.exec(ctx, "UPDATE backup SET verify_refused = $2, verify_refused_at = now() WHERE id = $1", id,
		storable(why))
}

// ForgetVerification makes Unverified list a backup again. It returns ErrNotFound if there is no complete backup of
// that id.
func (s Backups) ForgetVerification(ctx context.Context, id string) error {
	return s.change(ctx, ErrNotFound, `UPDATE backup SET verified_at = NULL, verify_error = '', verify_refused = '',
		verify_refused_at = NULL WHERE id = $1 AND state = 'complete'`, id)
}

// Import records a complete backup that was found in the object store, unless it is recorded. It reports whether
// it was not.
func (s Backups) Import(ctx context.Context, b Backup) (imported bool, err error) {
	inserted, err := s.run(ctx, s.pool, `INSERT INTO backup (id, instance_id, instance_name, service_id, plan_id, platform,
			organization_guid, space_guid, reason, state, flavour, version, created_at, taken_at, finished_at, keep_until,
			data_bytes, bytes, tables, table_rows)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'complete', $10, $11, $12, $12, $13, $14, $15, $16, $17, $18)
		ON CONFLICT (id) DO NOTHING`, b.ID, b.InstanceID, b.InstanceName, b.ServiceID, b.PlanID, b.Platform,
		b.OrganizationGUID, b.SpaceGUID, b.Reason, b.Flavour, b.Version, b.TakenAt, b.FinishedAt, b.KeepUntil, b.DataBytes,
		b.Bytes, b.Tables, b.Rows)
	return inserted == 1, err
}

// RecordScratch records a database on a shared server, and an account, before a task creates them to verify or restore
// a backup. They are live until the task has ended. It returns ErrLeaseLost if another worker may have the task.
func (s Backups) RecordScratch(ctx context.Context, l Lease, server, database, account, instanceID string) error {
	return s.underLease(ctx, l, func(tx *Tx) {
		tx.write("record a scratch database", `INSERT INTO resource (kind, server, name, instance_id, task_id)
			VALUES ('database', $1, $2, $4, $5), ('account', $1, $3, $4, $5) ON CONFLICT DO NOTHING`, server, database, account,
			instanceID, l.ID)
	})
}

// BackupStats are the figures of the backups.
type BackupStats struct {
	Backups    int64       // that are verified
	Unverified int64       // that were neither restored nor found damaged
	Damaged    int64       // that could not be restored
	Bytes      int64       // of all
	Ages       []BackupAge `db:"-"`
}

// BackupAge is the age of the newest verified backup of that instance of a plan whose newest is the oldest. An instance
// without one counts with its own age.
type BackupAge struct {
	PlanID string
	Age    time.Duration
}

// Stats counts the complete backups, and returns the ages for the plans that have a schedule.
func (s Backups) Stats(ctx context.Context, schedules []BackupSchedule) (stats BackupStats, err error) {
	stats, err = oneRow(ctx, s.pool, pgx.RowToStructByPos[BackupStats], `SELECT
		count(*) FILTER (WHERE verify_error = '' AND verified_at IS NOT NULL),
		count(*) FILTER (WHERE verify_error = '' AND verified_at IS NULL), count(*) FILTER (WHERE verify_error <> ''),
		coalesce(sum(bytes), 0)::bigint FROM backup WHERE state = 'complete'`)
	if err != nil {
		return stats, err
	}
	plans := make([]string, len(schedules))
	for n, p := range schedules {
		plans[n] = p.PlanID
	}
	stats.Ages, err = allRows(ctx, s.pool, pgx.RowToStructByPos[BackupAge], `SELECT i.plan_id,
			max(now() - coalesce((SELECT max(b.taken_at) FROM backup b WHERE b.instance_id = i.id AND b.state = 'complete'
				AND b.verified_at IS NOT NULL AND b.verify_error = '' AND b.taken_at <= now() + $2::interval), i.created_at))
		FROM instance i WHERE i.state = 'ready' AND i.plan_id = ANY ($1) GROUP BY i.plan_id`, plans, ClockTolerance)
	return stats, err
}
