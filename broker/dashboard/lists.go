package dashboard

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"mysql-broker/provisioner"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

// pageRows is the number of rows on a page of a list.
const pageRows = 50

// paging has the links below a list, or "" for none.
type paging struct {
	First, Next string
	Short       bool // the filter left less than a page of the rows that were read
}

// newPaging links to the rows after a key, or to none if it is "", with the page's own query.
func newPaging(r *http.Request, key, next string, rows int) paging {
	link := func(value string) string {
		query := url.Values{}
		for name, values := range r.URL.Query() {
			if name != key && values[0] != "" {
				query.Set(name, values[0])
			}
		}
		if value != "" {
			query.Set(key, value)
		}
		return r.URL.EscapedPath() + "?" + query.Encode()
	}
	p := paging{Short: rows < pageRows}
	if r.URL.Query().Get(key) != "" {
		p.First = link("")
	}
	if next != "" {
		p.Next = link(next)
	}
	return p
}

type instancesPage struct {
	paging
	Plan, Server, State string
	Plans               []plan.Plan
	Servers, States     []string
	Rows                []instanceRow
}

type instanceRow struct {
	store.ListedInstance
	state
	Plan             string
	Version, Upgrade string // of a dedicated server: see instancePage
}

// instances shows a page of the list of all service instances.
func (d *Dashboard) instances(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	p := instancesPage{Plan: query.Get("plan"), Server: query.Get("server"), State: query.Get("state"), Plans: d.Plans,
		Servers: d.Shared.Names(), States: []string{store.Creating, store.Ready, store.CreateFailed, store.DeleteFailed}}
	wanted := store.InstanceQuery{Server: p.Server, State: p.State}
	if p.Plan != "" {
		wanted.PlanIDs = []string{p.Plan}
	}
	found, next, err := d.Store.Instances.After(r.Context(), query.Get("after"), wanted, pageRows)
	if err != nil {
		d.fail(w, r, "list the instances", err)
		return
	}
	for _, i := range found {
		of := d.Plans.Get(i.PlanID)
		row := instanceRow{ListedInstance: i, state: states[i.State], Plan: of.Name}
		row.Version, row.Upgrade = versions(of, i.ServerFlavour, i.ServerVersion)
		p.Rows = append(p.Rows, row)
	}
	p.paging = newPaging(r, "after", next, len(found))
	d.show(w, r, http.StatusOK, "instances.html", "Service instances", p)
}

type tasksPage struct {
	paging
	Instance, State, Kind string
	States, Kinds         []string
	Rows                  []store.ListedTask
}

// tasks shows a page of the list of all operations, the newest first.
func (d *Dashboard) tasks(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	p := tasksPage{Instance: query.Get("instance"), State: query.Get("state"), Kind: query.Get("kind"),
		States: []string{store.InProgress, store.Succeeded, store.Failed},
		Kinds:  slices.Sorted(maps.Keys(provisioner.TaskKinds()))}
	before, err := strconv.ParseInt(cmp.Or(query.Get("before"), "0"), 10, 64)
	if err != nil || before < 0 {
		d.refuse(w, r, http.StatusBadRequest, noSuchPage)
		return
	}
	var next int64
	wanted := store.TaskQuery{InstanceID: p.Instance, State: p.State, Kind: p.Kind}
	if p.Rows, next, err = d.Store.Tasks.Before(r.Context(), before, wanted, pageRows); err != nil {
		d.fail(w, r, "list the tasks", err)
		return
	}
	following := ""
	if next > 0 {
		following = strconv.FormatInt(next, 10)
	}
	p.paging = newPaging(r, "before", following, len(p.Rows))
	d.show(w, r, http.StatusOK, "tasks.html", "Operations", p)
}
