package plan

// Backups say how often the instances of a plan are backed up, and for how long backups are kept.
type Backups struct {
	EveryHours int // 0 for never, except on request
	KeepDays   int // 0 for DefaultBackupKeepDays

	VerifyLater bool // a backup on request does not wait until it is verified
}

// DefaultBackupKeepDays is for how many days backups are kept if the plan does not say.
const DefaultBackupKeepDays = 14

// BackupKeepDays is for how many days a backup is kept.
func (p Plan) BackupKeepDays() int {
	if p.Backups.KeepDays > 0 {
		return p.Backups.KeepDays
	}
	return DefaultBackupKeepDays
}
