package backups

import (
	"context"
	"fmt"
	"time"

	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

// backupBefore finds the backup from which a restore to a time begins. name is its id, or that of its instance.
func (bs *Backups) backupBefore(ctx context.Context, of plan.Plan, name string,
	until time.Time) (b store.Backup, err error) {
	if of.Kind != plan.Dedicated {
		return b, engine.Refuse(engine.Invalid,
			"Plan %s cannot restore to a time. Choose a dedicated plan, or leave restore_to_time out.",
			of.Name)
	}
	all, err := bs.Store.Logs.Windows(ctx, name)
	if err != nil {
		return b, fmt.Errorf("list the times to restore to: %w", err)
	}
	if len(all) == 0 {
		return b, engine.Refuse(engine.Invalid,
			"%s cannot be restored to a time: its plan archives no binary logs, or nothing after its "+
				"latest backup is archived yet. Try again in a minute, or leave restore_to_time out to restore a backup.", name)
	}
	for _, w := range all {
		if !until.Before(w.From) && !until.After(w.Until) {
			return bs.Store.Backups.Get(ctx, w.BackupID)
		}
	}
	return b, engine.Refuse(engine.Invalid, "The time %s is not possible. %s can be restored to any time %s.",
		until.Format(time.RFC3339Nano), name, possible(all))
}

// Possible says between which times a restore is possible, in full seconds.
func possible(all []store.Window) (text string) {
	for n, w := range Periods(all) {
		if n > 0 {
			text += ", or "
		}
		text += fmt.Sprintf("between %s and %s", w.From.Format(time.RFC3339), w.Until.Format(time.RFC3339))
	}
	return text
}

// Periods joins windows of the same archive. Their ends are rounded to full seconds within them. The latest is first.
func Periods(all []store.Window) (joined []store.Window) {
	for _, w := range all {
		w.From = w.From.Add(time.Second - 1).UTC().Truncate(time.Second)
		w.Until = w.Until.UTC().Truncate(time.Second)
		if last := len(joined) - 1; last >= 0 && joined[last].LogID == w.LogID {
			if w.From.Before(joined[last].From) { // the server's clock may have been set back
				joined[last].From = w.From
			}
			continue
		}
		if !w.Until.Before(w.From) {
			joined = append(joined, w)
		}
	}
	return joined
}
