package catalog

import "mysql-broker/provisioner/plan"

// readBackups reads the keys that say when instances of a plan are backed up.
func readBackups(o *object) (b plan.Backups) {
	if hours := o.positive("backup_every_hours"); hours != nil {
		b.EveryHours = *hours
	}
	if days := o.positive("backup_keep_days"); days != nil {
		b.KeepDays = *days
	}
	if o.has("verify") {
		b.VerifyLater = o.oneOf("verify", "now", "later") == "later"
	}
	return b
}
