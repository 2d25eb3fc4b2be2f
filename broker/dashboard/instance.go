package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"time"

	"mysql-broker/broker/signin"
	"mysql-broker/provisioner/backups"
	"mysql-broker/provisioner/instances"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/steps"
	"mysql-broker/store"
)

const recentTasks = 20

// instancePage is the content of an instance's page. The fields after Structure are for people who can manage the
// instance.
type instancePage struct {
	ID, Name, Organization, Space string
	State                         state
	Plan                          plan.Plan
	Created, Updated              time.Time
	Operation                     operation
	Structure                     string
	Version                       string // recorded of a dedicated server, such as "MariaDB 11.8.9"
	Upgrade                       string // the version to which it can be upgraded, likewise
	Events                        string // path of the stream

	Manage   bool
	Place    string // for operators: the server's name
	Database string
	Connect  *connect               // nil until the instance is ready
	Former   *instances.FormerPlace // nil unless the data was moved, and the old place is there
	Storage  storage
	Server   serverPart
	Bindings []bindingRow
	Recent   []store.Operation
	Backups  []store.Backup // the latest first
	Copies   []copyRow      // being created from it, in its space
	Periods  []store.Window // it can be restored to any time within them; the latest first
	Deleted  []deletedRow   // instances of the space that can come back
}

// state is the text for an instance's state, and its severity.
type state struct{ Word, Mood string }

var states = map[string]state{
	store.Creating:     {"Being created", "busy"},
	store.Ready:        {"Ready", "good"},
	store.CreateFailed: {"Creation failed", "bad"},
	store.DeleteFailed: {"Deletion failed", "bad"},
}

// serverPart is what the server reports, or why it reports nothing.
type serverPart struct {
	Asked    bool
	Silent   string // a sentence instead of the rest
	Flavour  mysqladmin.Flavour
	Sessions int
	Tables   []tableRow
	Count    int // of all tables
}

type tableRow struct {
	mysqladmin.Table
	Share float64 // of the largest one, in percent
}

type bindingRow struct {
	store.ListedBinding
	Space    string // that uses it, if it is not the instance's
	Sessions int    // -1 if it is not known
}

// deletedRow is a deleted instance.
type deletedRow struct {
	store.Retained
	Plan string // its name; PLAN if the plan was removed
	Key  string // for the parameter undelete
}

// plainID matches ids that need no quoting in a shell, as GUIDs do.
var plainID = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

func (d *Dashboard) newDeletedRow(r store.Retained) deletedRow {
	row := deletedRow{r, cmp.Or(d.Plans.Get(r.PlanID).Name, "PLAN"), r.InstanceID}
	if !plainID.MatchString(r.InstanceID) {
		row.Key = r.ID
	}
	return row
}

// access looks up what the viewer may see. If that is nothing or unknown, it also responds to the request.
func (d *Dashboard) access(w http.ResponseWriter, r *http.Request, id string) (signin.Access, bool) {
	access, err := d.SignIn.Access(r, id)
	if err != nil {
		d.SignIn.Unavailable(w, r, err)
		return signin.None, false
	}
	if access == signin.None {
		d.refuse(w, r, http.StatusNotFound, noInstance)
		return signin.None, false
	}
	return access, true
}

// copyRow is a service instance that is being created with clone_from.
type copyRow struct {
	store.CopyUnderWay
	Name, Plan, Page, Doing string
}

func (d *Dashboard) newCopyRow(c store.CopyUnderWay) copyRow {
	row := copyRow{CopyUnderWay: c, Plan: d.Plans.Get(c.PlanID).Name, Page: InstancePath(c.InstanceID),
		Doing: c.Description}
	row.Name, _, _ = names(c.Context)
	if m := stage.FindStringSubmatch(c.Description); m != nil {
		row.Doing = m[1]
	}
	return row
}

// instance shows the page of an instance.
func (d *Dashboard) instance(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	access, ok := d.access(w, r, id)
	if !ok {
		return
	}
	p, err := d.instancePage(r, id, access)
	if errors.Is(err, store.ErrNotFound) {
		d.refuse(w, r, http.StatusNotFound, noInstance)
		return
	}
	if err != nil {
		d.fail(w, r, "show an instance", err)
		return
	}
	d.show(w, r, http.StatusOK, "instance.html", cmp.Or(p.Name, p.ID), p)
}

func (d *Dashboard) instancePage(r *http.Request, id string, access signin.Access) (*instancePage, error) {
	ctx := r.Context()
	// Read this first, so that events report changes that happen meanwhile.
	activity, err := d.Store.Reports.Activity(ctx, id)
	if err != nil {
		return nil, err
	}
	i, err := d.Store.Instances.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	p := &instancePage{ID: id, State: states[i.State], Plan: d.Plans.Get(i.PlanID), Created: i.CreatedAt,
		Updated: i.UpdatedAt, Operation: newOperation(activity), Structure: structureStamp(activity),
		Events: InstancePath(id) + "/events", Manage: access == signin.Manage, Database: i.Database}
	p.Name, p.Organization, p.Space = names(i.Context)
	p.Version, p.Upgrade = versions(p.Plan, i.ServerFlavour, i.ServerVersion)
	if p.Operation.InProgress && activity.Latest.Kind == store.Deprovision {
		p.State = state{"Being deleted", "busy"}
	}
	if !p.Manage {
		return p, nil
	}
	if v, _ := signin.FromContext(ctx); v.Operator {
		p.Place = i.Location.Server
	}
	if i.Former() {
		former, err := d.Provisioner.FormerPlace(ctx, i)
		if err != nil {
			return nil, err
		}
		p.Former = &former
	}
	if p.Recent, err = d.Store.Reports.RecentTasks(ctx, id, i.CreatedAt, recentTasks); err != nil {
		return nil, err
	}
	if p.Backups, err = d.Store.Backups.Of(ctx, id); err != nil {
		return nil, err
	}
	copies, err := d.Store.CopyAccounts.UnderWay(ctx, id)
	if err != nil {
		return nil, err
	}
	for _, c := range copies {
		p.Copies = append(p.Copies, d.newCopyRow(c))
	}
	windows, err := d.Store.Logs.Windows(ctx, id)
	if err != nil {
		return nil, err
	}
	p.Periods = backups.Periods(windows)
	deleted, err := d.Provisioner.Deleted(ctx, i)
	if err != nil {
		return nil, err
	}
	for _, r := range deleted {
		p.Deleted = append(p.Deleted, d.newDeletedRow(r))
	}
	return p, d.fillIn(ctx, p, i, r.URL.Query().Get("range"))
}

// versions are the texts for the version that a dedicated server has, and the one to which it can be upgraded; "" for
// none.
func versions(of plan.Plan, flavour, version string) (has, upgrade string) {
	if version == "" {
		return "", ""
	}
	present := launcher.Version{Flavour: flavour, Version: version}
	if to, can := instances.Upgradable(of, present); can {
		upgrade = to.String()
	}
	return present.String(), upgrade
}

// fillIn adds the server's report and the measured storage.
func (d *Dashboard) fillIn(ctx context.Context, p *instancePage, i store.Instance, span string) error {
	bindings, err := d.Store.Reports.Bindings(ctx, i.ID)
	if err != nil {
		return err
	}
	accounts := make([]string, len(bindings))
	for n, b := range bindings {
		accounts[n] = b.Account
	}
	var inspection steps.Inspection
	if p.Server.Asked = i.State == store.Ready; p.Server.Asked {
		if inspection, err = d.inspections.of(ctx, i, p.Structure, accounts); err != nil {
			if ctx.Err() == nil {
				d.Logger.Warn("dashboard: a server reported nothing about an instance", "instance_id", i.ID, "error", err)
			}
			p.Server.Silent = d.silence(ctx, i)
		}
	}
	p.Server.fill(inspection)
	if i.State == store.Ready {
		p.Connect = d.connect(ctx, i, p, bindings)
	}
	for _, b := range bindings {
		sessions, known := inspection.Sessions[b.Account]
		if !known {
			sessions = -1
		}
		row := bindingRow{b, b.SpaceGUID, sessions}
		if row.Space == i.SpaceGUID {
			row.Space = ""
		}
		p.Bindings = append(p.Bindings, row)
		p.Server.Sessions += max(sessions, 0)
	}
	p.Storage, err = d.storage(ctx, i, p.Plan, inspection, span)
	return err
}

func (s *serverPart) fill(from steps.Inspection) {
	s.Flavour, s.Count = from.Server, from.Tables
	s.Flavour.Version, _, _ = strings.Cut(s.Flavour.Version, "-") // MariaDB's ends with the packager
	for _, t := range from.Largest {
		s.Tables = append(s.Tables, tableRow{t, 100 * float64(t.Bytes) / float64(max(from.Largest[0].Bytes, 1))})
	}
}

// names are those in the context of a provision by Cloud Foundry or Kubernetes.
// https://github.com/openservicebrokerapi/servicebroker/blob/v2.17/profile.md#context-object
func names(raw json.RawMessage) (instance, organization, space string) {
	var c struct {
		Instance     string `json:"instance_name"`
		Organization string `json:"organization_name"`
		Space        string `json:"space_name"`
		Namespace    string `json:"namespace"`
	}
	_ = json.Unmarshal(raw, &c) // platforms may put anything there
	return c.Instance, c.Organization, cmp.Or(c.Space, c.Namespace)
}
