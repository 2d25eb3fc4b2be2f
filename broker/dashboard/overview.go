package dashboard

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"mysql-broker/provisioner/doctor"
	"mysql-broker/provisioner/instances"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
)

// overviewPage is the operators' first page.
type overviewPage struct {
	Find     string // the search that found nothing
	Tasks    store.TaskStats
	Oldest   string
	Servers  []serverRow
	Plans    []planRow
	Upgrades int // dedicated servers for which there is an upgrade
	Findings []findingCount
	Examined time.Time
}

// planRow says how many instances there are of a plan, and may be. That of all plans together has no id.
type planRow struct {
	ID, Name  string
	Instances int
	Most      int // that an organization has
	Limits    plan.Limits
}

type serverRow struct {
	Name, Address string
	State         state
	Databases     int
	Max           int
	Full          float64                // percent
	Sold          int64                  // connections that bindings may open at the same time
	Connections   mysqladmin.Connections // zero if the server does not report them
}

type findingCount struct {
	Problem doctor.Problem
	Count   int
}

// overview shows servers, operations and findings, or redirects to the instance of a search.
func (d *Dashboard) overview(w http.ResponseWriter, r *http.Request) {
	find := strings.TrimSpace(r.URL.Query().Get("find"))
	if find != "" {
		id, err := d.Store.Instances.Find(r.Context(), find)
		if err == nil {
			http.Redirect(w, r, InstancePath(id), http.StatusSeeOther)
			return
		}
		if !errors.Is(err, store.ErrNotFound) {
			d.fail(w, r, "look for an instance", err)
			return
		}
	}
	p := overviewPage{Find: find}
	var err error
	if p.Tasks, err = d.Store.Tasks.Stats(r.Context()); err != nil {
		d.fail(w, r, "count the operations", err)
		return
	}
	if p.Tasks.InProgress+p.Tasks.Waiting > 0 {
		p.Oldest = spanText(p.Tasks.Oldest)
	}
	if p.Servers, err = d.servers(r); err != nil {
		d.fail(w, r, "read how full the servers are", err)
		return
	}
	counts, err := d.Store.Reports.OrganizationCounts(r.Context())
	if err != nil {
		d.fail(w, r, "count the instances", err)
		return
	}
	p.Plans = d.planRows(counts)
	versions, err := d.Store.Reports.VersionCounts(r.Context())
	if err != nil {
		d.fail(w, r, "count the versions of servers", err)
		return
	}
	for _, v := range versions {
		has := launcher.Version{Flavour: v.Flavour, Version: v.Version}
		if _, can := instances.Upgradable(d.Plans.Get(v.PlanID), has); can {
			p.Upgrades += v.Count
		}
	}
	all, examined := d.Findings()
	p.Examined, p.Findings = examined, counted(all)
	d.show(w, r, http.StatusOK, "overview.html", "Overview", p)
}

func (d *Dashboard) servers(r *http.Request) (rows []serverRow, err error) {
	states, err := d.Store.Servers.States(r.Context(), d.Shared.Names())
	if err != nil {
		return nil, err
	}
	bindings, err := d.Store.Reports.BindingCounts(r.Context())
	if err != nil {
		return nil, err
	}
	sold := shared.SoldConnections(d.Plans, bindings)
	health := d.Shared.Health(r.Context())
	connections := d.Shared.Connections(r.Context(), health)
	for _, s := range d.Shared.All() {
		row := serverRow{Name: s.Name(), Address: net.JoinHostPort(s.Host, strconv.Itoa(s.Port)), State: state{"Up", "good"},
			Databases: states[s.Name()].Instances, Max: s.MaxDatabases, Sold: sold[s.Name()],
			Connections: connections[s.Name()]}
		row.Full = min(100*float64(row.Databases)/float64(row.Max), 100)
		switch {
		case health[s.Name()] != nil:
			row.State = state{"Does not answer", "bad"}
		case !s.Usable():
			row.State = state{"Lacks privileges or settings", "bad"}
		case states[s.Name()].Drained():
			row.State = state{"Drained", "warn"}
		case row.Databases >= row.Max:
			row.State = state{"Full", "warn"}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// planRows adds up the instances of each plan of the catalog, and of all plans.
func (d *Dashboard) planRows(counts []store.OrganizationCount) []planRow {
	rows := make([]planRow, len(d.Plans), len(d.Plans)+1)
	for n, p := range d.Plans {
		rows[n] = planRow{ID: p.ID, Name: p.Name, Limits: p.Limits}
	}
	all := planRow{Name: "all plans", Limits: d.Limits}
	most := store.MostInOrganization(counts)
	all.Most = most[""]
	for _, c := range counts {
		all.Instances += c.Count
		if n := slices.IndexFunc(rows, func(r planRow) bool { return r.ID == c.PlanID }); n >= 0 {
			rows[n].Instances, rows[n].Most = rows[n].Instances+c.Count, most[c.PlanID]
		}
	}
	return append(rows, all)
}

// counted counts findings by their problem, in the order in which they come.
func counted(all []doctor.Finding) (counts []findingCount) {
	for _, f := range all {
		n := slices.IndexFunc(counts, func(c findingCount) bool { return c.Problem == f.Problem })
		if n < 0 {
			n, counts = len(counts), append(counts, findingCount{Problem: f.Problem})
		}
		counts[n].Count++
	}
	return counts
}
