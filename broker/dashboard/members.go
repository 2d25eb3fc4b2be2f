package dashboard

import (
	"context"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/store"
)

// members returns the members of an instance whose server is a group. A page without them is better than none.
func (d *Dashboard) members(ctx context.Context, i store.Instance) []launcher.Member {
	if i.State != store.Ready || !i.HasMembers() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, d.AnswerTime)
	defer cancel()
	all, err := d.Members(ctx, i.Location)
	if err != nil {
		d.Logger.Warn("dashboard: the members of a group could not be read", "instance_id", i.ID, "error", err)
	}
	return all
}
