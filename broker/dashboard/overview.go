package dashboard

import (
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"mysql-broker/provisioner/doctor"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
)

// overviewRows is how many rows each list of the overview has at most. The commands for operators list all.
const overviewRows = 50

// overviewPage is the operators' page.
type overviewPage struct {
	Find      string   // the search that found nothing, or several
	Several   []string // their ids
	Now       store.TaskStats
	Oldest    string
	Servers   []serverRow
	Running   []store.ListedTask
	Failed    []store.ListedTask // the latest
	Findings  []doctor.Finding
	Found     int // all findings
	Examined  time.Time
	Instances []instanceRow
	Most      int // rows of each list
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

type instanceRow struct {
	store.ListedInstance
	state
	Plan             string
	Version, Upgrade string // of a dedicated server: see instancePage
}

// overview shows servers, operations, findings and instances, or redirects to the instance of a search.
func (d *Dashboard) overview(w http.ResponseWriter, r *http.Request) {
	ctx, find := r.Context(), strings.TrimSpace(r.URL.Query().Get("find"))
	var several *store.AmbiguousError
	if find != "" {
		id, err := d.Store.Instances.Named(ctx, find)
		if err == nil {
			http.Redirect(w, r, InstancePath(id), http.StatusSeeOther)
			return
		}
		if !errors.Is(err, store.ErrNotFound) && !errors.As(err, &several) {
			d.fail(w, r, "find an instance", err)
			return
		}
	}
	p := overviewPage{Find: find, Most: overviewRows}
	if several != nil {
		p.Several = several.IDs
	}
	for _, part := range []struct {
		doing string
		read  func() error
	}{
		{"count the operations", func() (err error) { p.Now, err = d.Store.Tasks.Stats(ctx); return err }},
		{"read how full the servers are", func() (err error) { p.Servers, err = d.servers(r); return err }},
		{"list the operations under way", func() error { return d.tasks(r, store.InProgress, &p.Running) }},
		{"list the operations that failed", func() error { return d.tasks(r, store.Failed, &p.Failed) }},
		{"list the instances", func() (err error) { p.Instances, err = d.instances(r); return err }},
	} {
		if err := part.read(); err != nil {
			d.fail(w, r, part.doing, err)
			return
		}
	}
	if p.Now.InProgress+p.Now.Waiting > 0 {
		p.Oldest = spanText(p.Now.Oldest)
	}
	p.Findings, p.Examined = d.Findings()
	p.Found = len(p.Findings)
	p.Findings = p.Findings[:min(p.Found, overviewRows)]
	d.show(w, r, http.StatusOK, "overview.html", "Overview", p)
}

// tasks reads the newest tasks in a state.
func (d *Dashboard) tasks(r *http.Request, state string, rows *[]store.ListedTask) error {
	return d.Store.Tasks.Each(r.Context(), store.TaskQuery{State: state, Most: overviewRows},
		func(t store.ListedTask) error {
			*rows = append(*rows, t)
			return nil
		})
}

func (d *Dashboard) instances(r *http.Request) (rows []instanceRow, err error) {
	err = d.Store.Instances.Each(r.Context(), store.InstanceQuery{Most: overviewRows}, func(i store.ListedInstance) error {
		of := d.Plans.Get(i.PlanID)
		row := instanceRow{ListedInstance: i, state: states[i.State], Plan: of.Name}
		row.Version, row.Upgrade = versions(of, i.ServerFlavour, i.ServerVersion)
		rows = append(rows, row)
		return nil
	})
	return rows, err
}

func (d *Dashboard) servers(r *http.Request) (rows []serverRow, err error) {
	states, err := d.Store.Servers.States(r.Context(), d.Fleet.Shared.Names())
	if err != nil {
		return nil, err
	}
	bindings, err := d.Store.Reports.BindingCounts(r.Context())
	if err != nil {
		return nil, err
	}
	sold := shared.SoldConnections(d.Plans, bindings)
	health := d.Fleet.Shared.Health(r.Context())
	connections := d.Fleet.Shared.Connections(r.Context(), health)
	for _, s := range d.Fleet.Shared.All() {
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
