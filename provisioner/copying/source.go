package copying

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/shared"
	"mysql-broker/provisioner/steps"
	"mysql-broker/store"
)

// Tenant says to whom an instance belongs. Parameters of a create request can name another instance, or what is kept
// of a deleted one; the new instance then gets its data. Brokers do not see the roles of users, so that both must
// belong to the same tenant.
type Tenant struct {
	Platform     string // "cloudfoundry" or "kubernetes", for example
	Organization string // the organization's GUID, or the id of the Kubernetes cluster
	Space        string // the space's GUID, or the Kubernetes namespace
}

// TenantOf reads the tenant from a request, or from what was recorded of it. Only the context object says what kind of
// platform sent a request, so that a tenant without one is incomplete.
// https://github.com/openservicebrokerapi/servicebroker/blob/v2.17/profile.md#context-object
func TenantOf(organization, space string, context json.RawMessage) Tenant {
	var c struct {
		Platform  string `json:"platform"`
		Cluster   string `json:"clusterid"`
		Namespace string `json:"namespace"`
	}
	if json.Unmarshal(context, &c) != nil { // platforms may put anything there
		return Tenant{}
	}
	if c.Platform == "kubernetes" {
		return Tenant{c.Platform, c.Cluster, c.Namespace}
	}
	return Tenant{c.Platform, organization, space}
}

// Complete reports whether everything is known that tells this tenant from others.
func (t Tenant) Complete() bool { return t.Platform != "" && t.Organization != "" && t.Space != "" }

// Refuse returns the refusal of a request of this tenant that names data of others, or none: notFound, or what the
// platform has to send so that the request can name any data.
func (t Tenant) Refuse(notFound error) error {
	fields := [2]string{"organization_guid", "space_guid"}
	if t.Platform == "kubernetes" {
		fields = [2]string{"clusterid", "namespace"}
	}
	missing := ""
	switch {
	case t.Platform == "":
		missing = "platform"
	case t.Organization == "":
		missing = fields[0]
	case t.Space == "":
		missing = fields[1]
	default:
		return notFound
	}
	return engine.Refuse(engine.Invalid, "The request does not say whose data it may use: its context object lacks the "+
		"text %q, or is missing or wrong. The platform has to send platform, %s and %s there. This is nothing that you can "+
		"change; tell your operator.", missing, fields[0], fields[1])
}

// MayUse reports whether a new instance of this tenant and plan may get the data of one of another tenant and plan.
// Different or unknown tenants may only if the operator allows it for both plans.
func (t Tenant) MayUse(of Tenant, its, source plan.Plan) bool {
	return t.Complete() && t == of || its.AllowCrossSpace && source.AllowCrossSpace
}

// OfSource completes engine.Silent.
const OfSource = " of the service instance to copy"

// Source finds the instance that a request names with clone_from, and measures it.
func (c *Copier) Source(ctx context.Context, q engine.ProvisionRequest) (store.Instance, error) {
	id := q.Parameters.CloneFrom
	by := TenantOf(q.OrganizationGUID, q.SpaceGUID, q.Context)
	i, err := c.Store.Instances.Get(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return i, by.Refuse(noSource(id))
	}
	if err != nil {
		return i, fmt.Errorf("read the source: %w", err)
	}
	switch of := TenantOf(i.OrganizationGUID, i.SpaceGUID, i.Context); {
	case !by.MayUse(of, q.Plan, c.Plans.Get(i.PlanID)) || i.ID == q.InstanceID:
		return i, by.Refuse(noSource(id))
	case i.State != store.Ready:
		return i, engine.Refuse(engine.Invalid, "The service instance %s is not ready, so it cannot be copied.", id)
	}
	switch doing, err := c.replacing(ctx, id); {
	case err != nil:
		return i, err
	case doing == store.Deprovision:
		return i, engine.Refuse(engine.Invalid, "The service instance %s is being deleted, so it cannot be copied.", id)
	case doing != "":
		return i, engine.Refuse(engine.Busy, "The service instance %s is being restored; copy it once that has ended.", id)
	}
	size, err := c.DatabaseSize(ctx, i)
	if err != nil {
		return i, c.UnlessDeleted(ctx, i.ID, engine.Silent(OfSource, fmt.Errorf("measure the source: %w", err)))
	}
	if used := size.Used(q.Plan.Quota()); used > q.Plan.Quota() {
		return i, engine.Refuse(engine.Invalid,
			"The service instance %s holds %d MiB and plan %s allows %d MiB. Delete data, or choose a "+
				"larger plan.", id, (used+1<<20-1)>>20, q.Plan.Name, q.Plan.MaxStorageMB)
	}
	return i, nil
}

// replacing returns the kind of the task in progress that removes or replaces the data of an instance, or "". A copy
// that begins meanwhile might get a part of it.
func (c *Copier) replacing(ctx context.Context, id string) (kind string, err error) {
	t, err := c.Store.Tasks.Latest(ctx, id, "", "")
	switch {
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return "", fmt.Errorf("find out what is done with the source: %w", err)
	case err == nil && t.State == store.InProgress && (t.Kind == store.Deprovision || t.Kind == store.Restore):
		return t.Kind, nil
	}
	return "", nil
}

// Takes returns a function that checks whether a shared server can hold what an instance's server holds; nil if there
// is no such instance. For an instance that is restored from a backup, it is the server of the backup.
func (c *Copier) Takes(ctx context.Context, source store.Instance,
	restored store.Backup) (takes func(*shared.Server) error, err error) {
	from := mysqladmin.Flavour{Name: restored.Flavour, Version: restored.Version}
	switch {
	case source.ID != "":
		err = c.Fleet.AsAdmin(ctx, source, func(admin *mysqladmin.Server) (err error) {
			from, err = admin.Flavour(ctx)
			return err
		})
	case restored.ID == "":
		return nil, nil
	}
	return func(server *shared.Server) error {
		to, err := server.Flavour(ctx)
		if err == nil && !to.CanTake(from) {
			err = &steps.FlavourError{Of: from}
		}
		return err
	}, err
}

// noSource refuses a request that names a source which does not exist or belongs to another tenant. Both get the same
// sentence, so that nobody can find out which ids exist in other spaces.
func noSource(id string) error {
	return engine.Refuse(engine.Invalid, "There is no service instance %s in this space.", id)
}
