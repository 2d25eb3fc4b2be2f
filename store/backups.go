package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Backups records the backups in the object store. backupcare.go finds which to take, verify and delete.
type Backups struct{ *database }

// States of a backup.
const (
	BackupInProgress = "in progress"
	BackupComplete   = "complete"
	BackupDeleting   = "deleting" // some of it may be deleted
)

// Backup is a backup in the object store.
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
	TakenAt          *time.Time // the data are not older than this; nil until it is complete
	FinishedAt       *time.Time
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
	return s.inTx(ctx, func(tx *Tx) error {
		if err := tx.checkLease(ctx, l); err != nil {
			return err
		}
		tx.CompleteBackup(b)
		if mark != nil {
			tx.MarkBackup(*mark)
		}
		return nil
	})
}

// ForgetUnfinished deletes the record of a backup that was not completed, and of which nothing is left.
func (s Backups) ForgetUnfinished(ctx context.Context, id string) error {
	_, err := s.db.Exec(ctx, "DELETE FROM backup WHERE id = $1 AND state = 'in progress'", id)
	return err
}

// Get reads one backup, or returns ErrNotFound.
func (s Backups) Get(ctx context.Context, id string) (Backup, error) {
	b, err := oneRow(ctx, s.pool, scanBackup, "SELECT "+backupColumns+" FROM backup WHERE id = $1", id)
	return b, explainOldSchema(err)
}

// Of lists the backups of an instance, or all for "", the latest first.
func (s Backups) Of(ctx context.Context, instanceID string) ([]Backup, error) {
	all, err := allRows(ctx, s.pool, scanBackup, "SELECT "+backupColumns+` FROM backup
		WHERE $1 = '' OR instance_id = $1 ORDER BY created_at DESC, id`, instanceID)
	return all, explainOldSchema(err)
}

// Find finds the complete backup of that id or, if it is the id of an instance, its latest verified one. If none
// is verified, it is the latest that no verification has found to be damaged.
func (s Backups) Find(ctx context.Context, backupOrInstance string) (Backup, error) {
	return oneRow(ctx, s.pool, scanBackup, "SELECT "+backupColumns+` FROM backup
		WHERE state = 'complete' AND (id = $1 OR instance_id = $1 AND verify_error = '')
		ORDER BY id = $1 DESC, verified_at IS NULL, taken_at DESC LIMIT 1`, backupOrInstance)
}
