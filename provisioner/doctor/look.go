package doctor

import (
	"context"
	"fmt"
	"regexp"

	"mysql-broker/store"
)

// look compares once: the store is read first, and the servers are asked afterwards.
func (d *Doctor) look(ctx context.Context) (Report, error) {
	recorded, err := d.store.Resources(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("read what is recorded: %w", err)
	}
	servers := d.servers(ctx)
	r := compare(servers, recorded)
	abandoned, err := d.store.Abandoned(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("look for what is left half-way: %w", err)
	}
	for _, a := range abandoned {
		r.Findings = append(r.Findings, abandonedFinding(a))
	}
	silent, err := d.silent(ctx, servers[""], recorded)
	r.Findings = append(r.Findings, silent...)
	if err == nil {
		err = ctx.Err() // else servers would pass for unreachable because nobody waits any more
	}
	return r, err
}

// compare tells the differences between what servers hold and what was recorded before they were asked.
func compare(servers map[string]contents, recorded []store.Resource) Report {
	var r Report
	known := make(map[thing]bool, len(recorded))
	lost := map[string]bool{}  // instances whose database is missing
	unseen := map[string]int{} // resources of each server that cannot be asked
	for _, resource := range recorded {
		t := thing{resource.Kind, resource.Name}
		known[t] = true
		holds, configured := servers[resource.Server]
		if !configured || holds.err != nil {
			if resource.Live || configured { // what ended before its server was given up is of no interest
				unseen[resource.Server]++
			}
			continue
		}
		there := holds.things[t]
		switch {
		case there && !resource.Live:
			r.Findings = append(r.Findings, orphan(resource))
		case !there && resource.Expected:
			r.Findings = append(r.Findings, missing(resource))
			if resource.Kind == store.DatabaseResource {
				lost[resource.InstanceID] = true
			}
		case !there && !resource.Live:
			r.gone = append(r.gone, store.ResourceKey{Kind: resource.Kind, Server: resource.Server, Name: resource.Name})
			continue
		}
		r.Compared.count(resource.Kind)
	}
	for i, f := range r.Findings {
		if f.Kind == store.AccountResource && lost[f.InstanceID] && f.Problem == Missing {
			r.Findings[i].Repairable, r.Findings[i].ToDo = false, "restore its database first"
		}
	}
	for server, n := range unseen {
		r.Findings = append(r.Findings, unreachable(server, servers, n))
	}
	for server, holds := range servers {
		if holds.err != nil {
			continue
		}
		r.Reachable = append(r.Reachable, server)
		if server != "" {
			r.Compared.SharedServers++
		}
		for t := range holds.things {
			if !known[t] && ours[t.kind].MatchString(t.name) {
				r.Findings = append(r.Findings, unrecorded(server, t))
			}
		}
	}
	return r
}

// ours are the names that the provisioner gives.
var ours = map[string]*regexp.Regexp{
	store.DatabaseResource:  regexp.MustCompile(`^db_[a-z2-7]{20}$`),
	store.AccountResource:   regexp.MustCompile(`^u_[a-z2-7]{20}$`),
	store.DedicatedResource: regexp.MustCompile(`^d_[a-z2-7]{20}$`),
}

func (c *Compared) count(kind string) {
	switch kind {
	case store.DatabaseResource:
		c.Databases++
	case store.AccountResource:
		c.Accounts++
	case store.DedicatedResource:
		c.DedicatedServers++
	}
}
