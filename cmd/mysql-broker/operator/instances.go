package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"mysql-broker/cmd/mysql-broker/cli"
	"mysql-broker/store"
)

func instancesCommand() *cobra.Command {
	var q store.InstanceQuery
	command := &cobra.Command{
		Use:   "instances [INSTANCE]",
		Short: "List service instances, or show one",
		Long: `List the service instances that the broker has recorded, in the order of their ids, or show one with its
bindings and its latest tasks.

The names of an instance, its organization and its space are those that the platform sent at its creation. A list can be
long: rows may be from different moments, nothing is blocked meanwhile, and lists of any length need little memory.

` + cli.JSONHelp + `
An instance has id, name, plan, plan_id, state, kind (shared
or dedicated), server, database, organization_guid, organization_name, space_guid, space_name, binding_count, operation
(the kind of the one in progress, if any), created_at and updated_at; a single one also has bindings,
latest_tasks, at most ` + strconv.Itoa(latest) + `, and once its data is measured storage_bytes, storage_measured_at
and, while it is over its quota, over_quota_since. While the place is kept where its data was before a move, it has
moved_at, former_server, former_until (when the place is removed at the latest) and bindings_to_renew, which know only
that place.`,
		Example: `  mysql-broker instances --state delete-failed
  mysql-broker instances --server mysql-server-1 --plan shared-small --since 7d
  mysql-broker instances --org my-organization --json | jq -r '.[].id'
  mysql-broker instances 7d7c9bb6-4a0f-4f26-9c6d-1f4b7f3a2f10`,
	}
	l := list[instanceDocument]{filters: filtersOf(command, "instances"), arguments: []*string{&q.ID},
		rows: func(c *console, ctx context.Context) iter.Seq2[instanceDocument, error] { return c.instances(ctx, q) },
		one: func(c *console, ctx context.Context, out io.Writer, asJSON bool) error {
			return c.showInstance(ctx, out, q.ID, asJSON)
		}}
	l.named(&q.ID)
	l.plan(&q.PlanIDs)
	l.server(&q.Server)
	l.flags.BoolVar(&q.Dedicated, "dedicated", false, "only instances with a server of their own")
	l.choice(&q.State, "state", "in this state", store.Creating, store.Ready, store.CreateFailed, store.DeleteFailed)
	l.text(&q.Organization, "org", "of this organization, by its GUID or name")
	l.text(&q.Space, "space", "of this space, by its GUID or name")
	l.since(&q.Since)
	return l.command(command)
}

func (c *console) instances(ctx context.Context, q store.InstanceQuery) iter.Seq2[instanceDocument, error] {
	return rowsOf(ctx, q, c.store.Instances.Each, c.documents.instance)
}

// instanceDocument is an instance in the output of --json.
type instanceDocument struct {
	Plan   string             `json:"plan"`
	Kind   store.LocationKind `json:"kind"`
	Server string             `json:"server"` // or the id of a dedicated one
	store.ListedInstance
}

func (ds documents) instance(i store.ListedInstance) instanceDocument {
	return instanceDocument{ds.plan(i.PlanID), i.Kind, i.Server, i}
}

func (d instanceDocument) cells() []cell {
	return []cell{{"id", d.ID}, {"name", d.Name}, {"plan", d.Plan}, {"state", d.State}, {"server", d.Server},
		{"organization", cmp.Or(d.OrganizationName, d.OrganizationGUID)}, {"space", cmp.Or(d.SpaceName, d.SpaceGUID)},
		{"bindings", strconv.FormatInt(d.Bindings, 10)}, {"age", since(d.CreatedAt)}, {"operation", d.Operation}}
}

func (c *console) showInstance(ctx context.Context, out io.Writer, id string, asJSON bool) error {
	d, err := first(c.instances(ctx, store.InstanceQuery{ID: id}), "there is no service instance %q; `mysql-broker tasks "+
		"--instance` lists what is still known of one that was deleted", id)
	if err != nil {
		return err
	}
	bindings, err := collect(c.bindings(ctx, store.BindingQuery{InstanceID: id}), 0)
	if err != nil {
		return err
	}
	tasks, err := c.latestTasks(ctx, store.TaskQuery{InstanceID: id})
	if err != nil {
		return err
	}
	measured, err := c.usage(ctx, id)
	if err != nil {
		return err
	}
	former, err := c.former(ctx, id)
	if err != nil {
		return err
	}
	if err := details(out, asJSON, struct {
		instanceDocument
		*usageDocument
		*formerDocument
		Bindings []bindingDocument `json:"bindings"`
		Tasks    []taskDocument    `json:"latest_tasks"`
	}{d, measured, former, bindings, tasks}, []cell{
		{"id", d.ID}, {"name", d.Name}, {"plan", d.Plan}, {"state", d.State}, {"operation", d.Operation},
		{"kind", string(d.Kind)}, {"server", d.Server}, {"former server", former.String()}, {"database", d.Database},
		{"organization", named(d.OrganizationName, d.OrganizationGUID)},
		{"space", named(d.SpaceName, d.SpaceGUID)}, {"created", at(d.CreatedAt)}, {"updated", at(d.UpdatedAt)},
		{"storage", measured.String()}, {"bindings", strconv.FormatInt(d.Bindings, 10)}}); err != nil || asJSON {
		return err
	}
	return errors.Join(detailRows(out, bindings, "binding", "state", "role", "account", "app", "age", "operation"),
		printLatest(out, tasks))
}

// usageDocument is the last measurement of an instance's storage.
type usageDocument struct{ store.Usage }

// usage is nil before the first measurement.
func (c *console) usage(ctx context.Context, id string) (*usageDocument, error) {
	u, err := c.store.Usage.Get(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what its data takes: %w", err)
	}
	return &usageDocument{u}, nil
}

// String returns text for people; "" before the first measurement.
func (d *usageDocument) String() string {
	if d == nil {
		return ""
	}
	text := mebibytes(d.Bytes) + " " + ago(d.MeasuredAt)
	if d.OverSince != nil {
		text += "; over its quota since " + at(*d.OverSince)
	}
	return text
}

// formerDocument is the place where the data of an instance was before it was moved.
type formerDocument struct {
	MovedAt         time.Time `json:"moved_at"`
	Server          string    `json:"former_server"` // or the id of a dedicated one
	Until           time.Time `json:"former_until"`
	BindingsToRenew int       `json:"bindings_to_renew"`
}

// former is nil if there is no such place.
func (c *console) former(ctx context.Context, id string) (*formerDocument, error) {
	f, err := c.store.Instances.Former(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read where its data was before: %w", err)
	}
	return &formerDocument{MovedAt: f.Moved, Server: f.Server, Until: f.Moved.Add(c.cfg.KeepMoved),
		BindingsToRenew: f.Bindings}, nil
}

// String returns text for people; "" if there is no such place.
func (d *formerDocument) String() string {
	if d == nil {
		return ""
	}
	return fmt.Sprintf("%s, until %s; bindings to renew: %d", d.Server, rfc3339(d.Until), d.BindingsToRenew)
}
