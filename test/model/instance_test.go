package model

import (
	"slices"
	"strings"

	"mysql-broker/test/audit"
)

// instance is what the platform knows of a service instance.
type instance struct {
	id     string
	plan   string // its name, the last one that was confirmed
	phases phases
	note   string // what was written into its database

	operation string  // the token of an operation whose end is not known yet
	working   request // what that one does
	target    string  // the plan that it leads to, if it is an update

	// late are requests that were not answered and may be carried out at any time until the brokers have stopped.
	late      map[request]bool
	latePlans []string // of such updates
	toldGone  bool     // a deletion was answered with 200 or 410, and nothing was asked for since
	doubt     request  // the one to be followed up now
	doubtPlan string

	bindings []*credential

	undelete bool   // it was asked for with the data of the deleted one that had its id
	keeps    bool   // its deletion keeps its data, or has kept them, for certain
	left     string // the note in the data that its last deletion has left

	source *instance // it was asked for with this one's data
	from   string    // the backup of it, or "" for a clone
	backup string    // the newest backup of it with the note
	moved  bool      // its data may have been moved, or is being moved
}

// quiet reports whether the instance is settled and has a note.
func (i *instance) quiet() bool { return i.settled() && i.note != "" }

// settled reports whether the instance is ready, and nothing can change it but the next request.
func (i *instance) settled() bool {
	return i.phases.is(ready) && !i.tainted() && i.operation == "" && i.doubt == "" &&
		!slices.ContainsFunc(i.bindings, func(b *credential) bool { return b.doubt || b.late })
}

// arrived notes that the data with which the instance was asked for is there.
func (i *instance) arrived() {
	switch {
	case i.undelete:
		i.note = i.left
	case i.source != nil:
		i.note = i.source.note
	}
}

// retains reports whether a plan keeps the data of deleted instances: see newWorld.
func retains(plan string) bool { return slices.Contains(retaining, plan) }

// beforeDeletion notes whether the data will be kept. Where that is not certain, it is not asked for.
func (i *instance) beforeDeletion() {
	switch {
	case i.source != nil && i.note == "", i.phases[backing], i.phases[changing]:
		i.keeps = false
	case i.phases.is(ready) && !i.tainted() && len(i.latePlans) == 0:
		i.keeps = retains(i.plan)
	case i.phases[updating] || len(i.latePlans) > 0 || i.phases[ready] && !retains(i.plan):
		i.keeps = false
	}
}

// credential is what the platform knows of a service binding.
type credential struct {
	audit.Binding
	doubt bool // a request about it was not answered
	late  bool // and may be carried out yet
}

// tainted reports whether a request that was not answered may change the instance yet.
func (i *instance) tainted() bool { return len(i.late) > 0 }

// possible are the phases that a request now may find.
func (i *instance) possible() phases {
	all := i.phases.withProgress()
	if !all[ready] {
		return all
	}
	if len(i.latePlans) > 0 {
		all[updating] = true
	}
	if i.late[backUp] {
		all[backing] = true
	}
	if i.late[restore] {
		all[changing] = true
	}
	return all
}

// may reports whether a response that breaks the rules is the consequence of an earlier request that was not answered.
func (i *instance) may(q request, b *credential, status int) bool {
	switch {
	case b != nil && b.doubt && i.possible()[ready]: // 422: of a PostgreSQL that was away, that request may hold a lock yet
		return q == bindAgain && (status == 201 || status == 422) || q == unbind && (status == 410 || status == 422)
	case q == update: // a binding's task may be in progress
		return status == 422 && (i.tainted() || slices.ContainsFunc(i.bindings, func(b *credential) bool { return b.late }))
	case q == create:
		return status == 409 && (len(i.latePlans) > 0 || i.working == update) || status == 422 && i.tainted()
	}
	return false
}

// forget keeps of an operation only what it may have led to.
func (i *instance) forget() {
	if i.working == update {
		i.latePlans = append(i.latePlans, i.target)
	}
	i.operation, i.working, i.target = "", "", ""
}

// gone ends all bindings with their instance.
func (i *instance) gone() {
	if i.note != "" {
		i.left = i.note
	}
	i.note, i.backup, i.operation, i.working, i.target = "", "", "", "", ""
	for _, b := range i.bindings {
		b.State, b.doubt = audit.Gone, false
		if strings.HasPrefix(i.plan, "dedicated") || i.moved {
			b.Credentials = audit.Credentials{} // the port of its server may be another's from now on
		}
	}
}

func (i *instance) bound() []*credential {
	var there []*credential
	for _, b := range i.bindings {
		if b.State == audit.Exists && !b.doubt {
			there = append(there, b)
		}
	}
	return there
}
