package app

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"mysql-broker/provisioner/archive"
	"mysql-broker/provisioner/backups"
	"mysql-broker/provisioner/copying"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

var (
	copiesDesc   = desc("mysql_broker_copies", "Copies, backups and restores that this process runs now.")
	copyDoneDesc = desc("mysql_broker_copy_done_bytes", "Bytes that a copy in this process has copied or "+
		"compared.", "task")
	copyDesc = desc("mysql_broker_copy_bytes", "About how many bytes a copy in this process will have copied or "+
		"compared.", "task")
	backupsDesc     = desc("mysql_broker_backups", "Backups that were verified.")
	unverifiedDesc  = desc("mysql_broker_backups_unverified", "Complete backups that were not verified yet.")
	backupBytesDesc = desc("mysql_broker_backup_bytes", "Bytes of complete backups in the object store.")
	damagedDesc     = desc("mysql_broker_backups_damaged", "Complete backups that a verification could not restore.")
	backupAgeDesc   = desc("mysql_broker_backup_age_seconds", "Age of the newest verified backup, of that instance of "+
		"the plan whose newest is the oldest. An instance without one counts with its own age. Only plans with "+
		"backup_every_hours are shown, by brokers with an object store.", "plan")
	backupIntervalDesc = desc("mysql_broker_backup_interval_seconds", "How often instances of the plan are to be backed "+
		"up.", "plan")
	logAgeDesc = desc("mysql_broker_binary_log_age_seconds", "For how long changes were not archived, of that instance "+
		"of the plan where that is the longest. An instance without an archive counts with its own age. Only plans with "+
		"archive_binary_logs are shown.", "plan")
	logBytesDesc = desc("mysql_broker_binary_log_bytes", "Bytes of binary logs that were written to the object store, as "+
		"long as one of their backups is there.")
)

// collectBackups exports nothing if there are no backups and no plan has a schedule.
func (c *stateCollector) collectBackups(ctx context.Context, ch chan<- prometheus.Metric) error {
	var schedules []store.BackupSchedule
	if c.backsUp {
		schedules = backups.BackupSchedules(c.plans)
	}
	stats, err := c.store.Backups.Stats(ctx, schedules)
	if err != nil || stats.Bytes == 0 && len(schedules) == 0 {
		return err
	}
	gauge(ch, backupsDesc, float64(stats.Backups))
	gauge(ch, unverifiedDesc, float64(stats.Unverified))
	gauge(ch, backupBytesDesc, float64(stats.Bytes))
	gauge(ch, damagedDesc, float64(stats.Damaged))
	for _, s := range schedules {
		gauge(ch, backupIntervalDesc, s.Every.Seconds(), planLabel(c.names, s.PlanID))
	}
	for _, a := range stats.Ages {
		gauge(ch, backupAgeDesc, a.Age.Seconds(), planLabel(c.names, a.PlanID))
	}
	return nil
}

// collectLogs exports nothing if no plan archives binary logs, or this broker archives none.
func (c *stateCollector) collectLogs(ctx context.Context, ch chan<- prometheus.Metric) error {
	plans := archive.Plans(c.plans)
	if len(plans) == 0 || !c.backsUp {
		return nil
	}
	stats, err := c.store.Logs.Stats(ctx, plans)
	if err != nil {
		return err
	}
	gauge(ch, logBytesDesc, float64(stats.Bytes))
	for _, a := range stats.Ages {
		gauge(ch, logAgeDesc, a.Age.Seconds(), planLabel(c.names, a.PlanID))
	}
	return nil
}

func collectCopies(copies func() (running int, all []copying.Copy)) prometheus.CollectorFunc {
	return func(ch chan<- prometheus.Metric) {
		running, all := copies()
		gauge(ch, copiesDesc, float64(running))
		for _, c := range all {
			gauge(ch, copyDoneDesc, float64(c.Done), task.Token(c.Task))
			gauge(ch, copyDesc, float64(c.Total), task.Token(c.Task))
		}
	}
}
