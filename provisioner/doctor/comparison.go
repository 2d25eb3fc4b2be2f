package doctor

import (
	"context"
	"errors"
	"fmt"

	"mysql-broker/provisioner/inventory"
	"mysql-broker/store"
)

// compare compares the contents of a server once with the records: it reads the server first, and then the store, page
// by page.
func (d *Doctor) compare(ctx context.Context, server string, forget bool) (Report, error) {
	l := &comparison{server: server, holds: d.contents(ctx, server), lost: map[string]bool{},
		unseen: map[string][]error{}}
	if err := ctx.Err(); err != nil { // otherwise a cancelled examination would report the server as unreachable
		return Report{}, err
	}
	err := d.Store.Resources.Each(ctx, server, func(recorded []store.Resource) error {
		gone, there := l.compare(recorded)
		if forget {
			forgotten, err := d.forget(ctx, gone, there)
			l.report.Forgotten += forgotten
			if err != nil {
				return err
			}
		}
		silent, err := d.silent(ctx, l.running(recorded))
		l.add(silent...)
		return err
	})
	known := err == nil && server != store.DedicatedServers && l.holds.err == nil
	if known {
		var findings []Finding
		findings, err = d.sharedAccounts(ctx, server, l.holds)
		for _, f := range findings {
			delete(l.holds.things, thing{kind: f.Kind, name: f.Name}) // a stray account is not reported a second time
		}
		l.add(findings...)
	}
	l.end()
	switch {
	case err != nil:
	case server == store.DedicatedServers:
		l.add(d.rights(ctx, l.unseen)...)
	case known:
		var blocked []Finding
		blocked, err = d.blocked(ctx, server)
		l.add(blocked...)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return l.report, fmt.Errorf("compare what is recorded for the server %q: %w", server, err)
	}
	return l.report, nil
}

// comparison is the state of Doctor.compare.
type comparison struct {
	server string
	holds  contents
	lost   map[string]bool    // instances whose database is missing
	unseen map[string][]error // by launcher: why it is not known which of its resources exist
	report Report
}

// compare adds the differences between the contents of the server and a page of records to the findings. It returns the
// resources that have ended and do not exist (gone), and those that exist although an earlier examination did not find
// them (there).
func (l *comparison) compare(recorded []store.Resource) (gone, there []store.ResourceKey) {
	for _, r := range recorded {
		if err := l.holds.unknown(r); err != nil {
			// What ended before its server was removed from the configuration does not matter.
			if r.Live || !errors.Is(err, errNotConfigured) {
				l.unseen[r.Launcher] = append(l.unseen[r.Launcher], err)
			}
			continue
		}
		key := store.ResourceKey{Kind: r.Kind, Server: r.Server, Name: r.Name}
		isThere := l.holds.recorded(thing{r.Kind, r.Launcher, r.Name})
		if isThere && r.SeenGone {
			there = append(there, key)
		}
		switch {
		case isThere && !r.Live:
			l.add(orphan(r))
		case isThere && r.Failed:
			l.add(about(Kept, r, "read the last error of its provision, and "+
				"docs/runbook.md#a-provision-failed-and-its-data-were-kept"))
		case !isThere && r.Expected:
			l.missing(r)
		case !isThere && r.Retained != "" && !r.SeenGone: // it was there when its instance was deleted
			l.add(about(Missing, r, "restore it from a backup, or forget it: mysql-broker retained purge "+r.Retained))
		case !isThere && !r.Live:
			gone = append(gone, key)
			continue
		}
		l.report.Compared.count(r.Kind)
	}
	return gone, there
}

// missing adds a finding for a resource that must exist and does not. A database comes before its accounts, which can
// only be repaired after it.
func (l *comparison) missing(r store.Resource) {
	// An empty one must not take the place of a database or a server.
	f := about(Missing, r, "restore it from a backup, or delete the service instance")
	switch {
	case r.Kind == store.DatabaseResource:
		l.lost[r.InstanceID] = true
	case r.Kind == store.AccountResource && l.lost[r.InstanceID]:
		f.ToDo = "restore its database first"
	case r.Kind == store.AccountResource:
		f.Repairable, f.ToDo = true, "create it again, with its password and role"
	}
	l.add(f)
}

func (l *comparison) add(findings ...Finding) {
	l.report.Findings = append(l.report.Findings, findings...)
}

// running returns the dedicated servers that exist and must exist.
func (l *comparison) running(recorded []store.Resource) (running []store.Resource) {
	for _, r := range recorded {
		if r.Kind == store.DedicatedResource && r.Expected && l.holds.recorded(thing{r.Kind, r.Launcher, r.Name}) {
			running = append(running, r)
		}
	}
	return running
}

// end completes the report when all records have been compared.
func (l *comparison) end() {
	for launcher, why := range l.unseen {
		l.add(unreachable(l.server, launcher, why[0], len(why)))
	}
	if l.holds.err != nil {
		return
	}
	if len(l.unseen) == 0 {
		l.report.Reachable = []string{l.server}
	}
	if l.server != store.DedicatedServers {
		l.report.Compared.SharedServers++
		for _, toDo := range l.holds.limits {
			l.add(Finding{Problem: Limited, Kind: sharedServer, Server: l.server, Name: l.server, ToDo: toDo})
		}
		for addr, why := range l.holds.lost {
			l.add(lostNode(l.server, addr, why))
		}
	}
	for t, recorded := range l.holds.things {
		if !recorded && inventory.Ours(t.kind, t.name) {
			l.add(Finding{Problem: Unrecorded, Kind: t.kind, Server: l.server, Name: t.name,
				ToDo: "find out whose it is: another broker's, or this one's from before its PostgreSQL was restored"})
		}
	}
}

// forget reports to the store which resources are gone, and which exist after all. It returns how many records the
// store deleted.
func (d *Doctor) forget(ctx context.Context, gone, there []store.ResourceKey) (forgotten int64, err error) {
	if len(there) > 0 {
		if err := d.Store.Resources.Remember(ctx, there); err != nil {
			return 0, fmt.Errorf("keep the records of what is there still: %w", err)
		}
	}
	if len(gone) > 0 {
		if forgotten, err = d.Store.Resources.Forget(ctx, gone, d.KeepRecord); err != nil {
			return 0, fmt.Errorf("remove the records of what is gone: %w", err)
		}
	}
	return forgotten, nil
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
