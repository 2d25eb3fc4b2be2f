package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"mysql-broker/cmd/mysql-broker/cli"
	"mysql-broker/provisioner/retained"
	"mysql-broker/store"
)

func retainedCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "retained",
		Short: "List what deleted service instances have left, or drop it",
		Long: `List the deleted service instances whose data is kept for the days of their plan (keep_deleted_days in the
catalog), those first that are dropped first. A developer takes one back with:

  cf create-service OFFERING PLAN NAME -c '{"undelete":"INSTANCE"}'

` + cli.JSONHelp + `
One has id, instance_id, name, plan, plan_id, kind (shared or dedicated),
server, database, organization_guid, space_guid, bytes (as last measured, if it was), deleted_at, until, and adopted_by
while an instance is being created from it.`,
		Example: `  mysql-broker retained
  mysql-broker retained --json | jq -r '.[] | select(.bytes > 1e9) | .id'
  mysql-broker retained purge r_4k7qv2m6x3b5n7d9f2h4`,
	}
	command.AddCommand(purgeCommand())
	l := list[retainedDocument]{rows: (*console).retained}
	return l.command(command)
}

// retainedDocument is what a deleted instance has left, in the output of --json.
type retainedDocument struct {
	Plan   string             `json:"plan"`
	Kind   store.LocationKind `json:"kind"`
	Server string             `json:"server"` // or the id of a dedicated one
	store.Retained
}

func (c *console) retained(ctx context.Context) iter.Seq2[retainedDocument, error] {
	all, err := c.store.Retained.All(ctx)
	return theseOf(all, err, c.documents.retained)
}

func (ds documents) retained(r store.Retained) retainedDocument {
	return retainedDocument{ds.plan(r.PlanID), r.Location.Kind, r.Location.Server, r}
}

func (d retainedDocument) cells() []cell {
	size := ""
	if d.Bytes != nil {
		size = mebibytes(*d.Bytes)
	}
	return []cell{{"id", d.ID}, {"instance", d.InstanceID}, {"name", d.Name}, {"plan", d.Plan}, {"server", d.Server},
		{"space", d.SpaceGUID}, {"size", size}, {"deleted", ago(d.DeletedAt)}, {"until", cmp.Or(d.AdoptedBy, at(d.Until))}}
}

func purgeCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "purge (ID | INSTANCE)",
		Short: "Drop what a deleted service instance has left",
		Long: `Drop the data of a deleted service instance now, instead of at the end of its days. A running broker does that,
as a task whose name is printed. Nobody can take the data back any more.`,
		Example: `  mysql-broker retained purge r_4k7qv2m6x3b5n7d9f2h4`,
		Args:    cli.Exactly(1),
		RunE: begins(withConsole, "%s drops what is due, or the task that follows it.",
			func(ctx context.Context, c *console, args []string) (t store.Task, err error) {
				id, err := c.names.retained(ctx, args[0])
				if err == nil {
					t, err = c.runNow(ctx, retained.PurgeRetained, func() error {
						err := c.store.Retained.Expire(ctx, id)
						if err != nil {
							err = fmt.Errorf("end the days of %s: %w", args[0], err)
						}
						return err
					})
				}
				switch {
				case errors.Is(err, store.ErrNotFound):
					return t, fmt.Errorf("nothing is retained with the id %q; `mysql-broker retained` lists the ids", args[0])
				case errors.Is(err, store.ErrTaken):
					return t, fmt.Errorf("a service instance is being created from %s", args[0])
				}
				return t, err
			}),
	}
	confirm(command, "Nobody can take the data of %s back afterwards.")
	return cli.Describe(command, `  0    a broker drops it
  1    nobody has confirmed it, there is no such id, it is coming back, or PostgreSQL cannot be reached; standard error
       says which
`+cli.ExitConfiguration, cli.RecordedEnvironment)
}
