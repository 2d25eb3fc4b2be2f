package model

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"mysql-broker/test/audit"
	"mysql-broker/test/testdrive"
)

// patience is how long Cloud Controller waits for a response.
const patience = 60 * time.Second

// client is a platform that works on an instance of its own, one after the other, and now and then on one that all
// clients fight for.
type client struct {
	world   *world
	random  *rand.Rand
	name    string
	plans   []string // of its instances
	all     []*instance
	current *instance
	errands []request // work with data that is yet to be asked for, in any order
	busy    bool      // there are always more of them
}

// Work with data. A clone and a restore from a backup are creations, a move is an update.
const (
	clone       request = "clone"
	restoreFrom request = "restore from"
	move        request = "move"
)

// run makes steps until the run is over.
func (c *client) run(over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		default:
		}
		if c.current == nil {
			c.current = c.newInstance()
		}
		if c.chance(10) {
			c.fight()
		} else {
			c.step(c.current)
		}
	}
}

func (c *client) chance(percent int) bool    { return c.random.IntN(100) < percent }
func (c *client) pick(names []string) string { return names[c.random.IntN(len(names))] }

// pause waits for a moment, as platforms do before they repeat what did not work or poll again.
func (c *client) pause() { time.Sleep(time.Duration(50+c.random.IntN(200)) * time.Millisecond) }

// step sends one request about the client's own instance.
func (c *client) step(i *instance) {
	if b := slices.IndexFunc(i.bindings, func(b *credential) bool { return b.doubt }); b >= 0 && i.phases[ready] {
		c.pause()
		c.followUp(i, i.bindings[b])
		return
	}
	switch {
	case i.doubt == backUp || i.doubt == restore: // nothing has to be done about it
		i.doubt = ""
	case i.doubt == update:
		c.pause()
		c.send(i, update, nil, i.doubtPlan)
	case i.doubt == create && c.chance(50):
		c.pause()
		c.send(i, create, nil, i.plan)
	case i.doubt != "" || i.phases.is(failed): // orphan mitigation
		c.pause()
		c.send(i, remove, nil, "")
	case i.phases.is(absent) && i.tainted():
		c.current = nil // the id is not safe to use again
	case i.phases.is(absent):
		c.onAbsent(i)
	case i.operation != "" && c.chance(70):
		c.pause()
		c.poll(i)
	default:
		c.anything(i)
	}
}

func (c *client) onAbsent(i *instance) {
	switch {
	case len(i.bindings) > 0 && c.chance(40):
		c.current = nil
	case c.chance(10):
		c.send(i, remove, nil, "")
	case c.chance(10):
		c.send(i, fetch, nil, "")
	case c.chance(10):
		c.send(i, update, nil, i.plan)
	case c.chance(10):
		c.bind(i)
	default:
		i.undelete = i.keeps && retains(i.plan) && c.chance(60)
		if i.keeps = i.undelete; !i.undelete {
			i.left = ""
		}
		i.source, i.from, i.moved = nil, "", false
		c.send(i, create, nil, i.plan)
	}
}

// maxBindings is how many a platform asks for before it goes on with those that there are: fewer than the plans allow.
const maxBindings = 9

// anything sends what a platform may send to an instance that is there.
func (c *client) anything(i *instance) {
	if i.quiet() && c.chance(15) && c.errand(i) {
		return
	}
	bound := i.bound()
	switch n := c.random.IntN(100); {
	case n < 30 && len(i.bindings) < maxBindings || n < 80 && len(bound) == 0:
		c.bind(i)
	case n < 40:
		c.send(i, bindAgain, bound[c.random.IntN(len(bound))], "")
	case n < 45:
		c.send(i, bindOther, bound[c.random.IntN(len(bound))], "")
	case n < 50:
		c.send(i, fetchOne, bound[c.random.IntN(len(bound))], "")
	case n < 65:
		c.send(i, unbind, bound[c.random.IntN(len(bound))], "")
	case n < 80 && i.moved && !i.quiet(): // it may be of either kind
		c.send(i, fetch, nil, "")
	case n < 80:
		c.send(i, update, nil, c.pick(related[i.plan]))
	case n < 84:
		c.send(i, create, nil, i.plan)
	case n < 88 && !i.phases[deleting] && !i.tainted():
		c.send(i, createOther, nil, i.plan)
	case n < 92:
		c.send(i, fetch, nil, "")
	default:
		c.send(i, remove, nil, "")
	}
}

// related are the plans that an instance may be changed to.
var related = map[string][]string{
	"shared-small":    {"shared-small", "shared-large", "shared-async"},
	"shared-large":    {"shared-small", "shared-large", "shared-async"},
	"shared-async":    {"shared-small", "shared-large", "shared-async"},
	"dedicated-small": {"dedicated-small", "dedicated-large"},
	"dedicated-large": {"dedicated-small", "dedicated-large"},
}

// errand begins work with the data of an instance, if there is any to be done and the instance can be used for it.
func (c *client) errand(i *instance) bool {
	if len(c.errands) == 0 && c.busy {
		c.errands = []request{backUp, restore, restoreFrom, clone, move, backUp}
	}
	if len(c.errands) == 0 {
		return false
	}
	n := c.random.IntN(len(c.errands))
	q := c.errands[n]
	switch {
	case (q == restore || q == restoreFrom) && i.backup == "", q == move && i.moved:
		return false
	}
	c.errands = slices.Delete(c.errands, n, n+1)
	switch q {
	case clone, restoreFrom: // the source stays as it is
		c.world.count("request", string(q))
		c.current = c.newInstance()
		c.current.source = i
		if q == restoreFrom {
			c.current.from = i.backup
		}
		c.send(c.current, create, nil, c.current.plan)
	case move:
		c.world.count("request", string(q))
		i.moved = true
		to := "dedicated-small"
		if strings.HasPrefix(i.plan, "dedicated") {
			to = "shared-large"
		}
		c.send(i, update, nil, to)
	default:
		c.send(i, q, nil, "")
	}
	return true
}

func (c *client) newInstance() *instance {
	i := &instance{id: fmt.Sprintf("%s-%d-%d", c.name, len(c.all), c.random.Uint32()), plan: c.pick(c.plans),
		phases: only(absent), late: map[request]bool{}}
	c.all = append(c.all, i)
	return i
}

func (c *client) bind(i *instance) {
	b := &credential{Binding: audit.Binding{InstanceID: i.id, Role: "read-write", State: audit.Gone,
		ID: fmt.Sprintf("%s-b%d", i.id, len(i.bindings))}}
	bound := i.bound()
	if len(bound) > 0 { // the first one writes the note
		b.Role = c.pick([]string{"read-write", "read-write", "read-only", "admin"})
	}
	c.send(i, bind, b, "")
}

// followUp asks again for a binding whose request was not answered, or for its end.
func (c *client) followUp(i *instance, b *credential) {
	if b.State == audit.Unknown && c.chance(50) {
		c.send(i, bindAgain, b, "")
		return
	}
	c.send(i, unbind, b, "")
}

// send sends a request, holds its response against the rules, and keeps what it tells.
func (c *client) send(i *instance, q request, b *credential, plan string) {
	if q == bind {
		i.bindings = append(i.bindings, b)
	}
	asked := time.Now()
	if q == create || q == createOther {
		i.toldGone = false
	}
	if q == remove {
		i.beforeDeletion()
	}
	r, err := c.exchange(i, q, b, plan)
	if q == remove && err == nil && (r.Status == http.StatusOK || r.Status == http.StatusGone) {
		i.toldGone = true
	}
	if !c.world.conclusive(i.id, q, asked, r, err) {
		c.silence(i, q, b, plan)
		return
	}
	before := i.possible()
	after := before.after(q, r.Status)
	if c.world.waited(asked, r) {
		after = before
	}
	if r.Status == http.StatusUnprocessableEntity && r.String("error") != "ConcurrencyError" {
		c.world.wrong("%s of %s: a 422 that is not a ConcurrencyError: %s", q, i.id, r.Raw)
	}
	if len(after) == 0 {
		if !i.may(q, b, r.Status) {
			c.world.wrong("%s of %s in %v (before %v, late %v): status %d: %s", q, i.id, before, i.phases, i.late, r.Status,
				r.Raw)
		}
		after = before
	}
	c.learn(i, q, b, plan, r, after)
}

// exchange sends a request to any replica. Some clients do not wait for the response.
func (c *client) exchange(i *instance, q request, b *credential, plan string) (testdrive.Response, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if (q == create || q == createOther) && c.chance(20) || q != poll && q != fetch && c.chance(4) {
		hurry := time.AfterFunc(time.Duration(c.random.IntN(40))*time.Millisecond, cancel)
		defer hurry.Stop()
	}
	return c.world.send(ctx, c.random, q, c.world.wire(i, q, b, plan))
}

// silence keeps what may have become of a request that was not answered.
func (c *client) silence(i *instance, q request, b *credential, plan string) {
	switch {
	case q == fetch || q == fetchOne:
	case q == createOther:
		i.late[q] = true // it is refused, unless it comes after a deletion
	case q == bindOther:
		b.late = true
	case b != nil:
		b.doubt, b.late = true, true
		if b.State == audit.Gone {
			b.State = audit.Unknown
		}
		if q == unbind {
			b.State = audit.Failed // no bind may follow
		}
	default:
		before := i.possible()
		if q == create && !before[ready] { // what it may create is another instance, without these bindings
			i.gone()
		}
		i.phases = before.afterSilence(q)
		if q == create || q == remove { // others wait for the operation in progress, or are refused
			i.forget()
		}
		i.late[q], i.doubt, i.doubtPlan = true, q, plan
		if q == update {
			i.latePlans = append(i.latePlans, plan)
		}
	}
}

// learn records what a response reports.
func (c *client) learn(i *instance, q request, b *credential, plan string, r testdrive.Response, after phases) {
	if q == fetch && r.Status == http.StatusOK {
		c.checkPlan(i, r)
	}
	if q == create && (r.Status == http.StatusCreated || r.Status == http.StatusAccepted && !i.possible()[creating]) {
		i.gone() // it is made again: an earlier deletion, or its end, went unnoticed
		if i.undelete {
			c.world.count("request", "undelete")
		}
	}
	if r.Status == http.StatusAccepted {
		c.accepted(i, q, plan, r.String("operation"))
	}
	i.phases = after
	switch {
	case b != nil:
		c.learnBinding(i, q, b, r)
	case r.Status == http.StatusUnprocessableEntity: // to be asked again
	case q == create || q == update || q == remove || q == backUp || q == restore:
		i.doubt = ""
		if q == create && r.Status == http.StatusCreated {
			i.arrived()
		}
		if q == update && r.Status == http.StatusOK {
			i.plan = plan
			if i.working == update { // an earlier one, which has ended then
				i.operation, i.working, i.target = "", "", ""
			}
		}
	}
	if after.is(absent) {
		i.gone()
	}
}

// accepted keeps the token of an operation. A request that repeats the one in progress must be given the same.
func (c *client) accepted(i *instance, q request, plan, operation string) {
	same := q == create && i.phases.is(creating) || q == remove && i.phases.is(deleting)
	if same && i.operation != "" && i.operation != operation {
		r, err := c.exchange(i, poll, nil, "")
		if err == nil && r.Status == http.StatusOK && r.String("state") != "failed" {
			c.world.wrong("the repeated %s of %s got %s; it was %s before, which is %s", q, i.id, operation, i.operation, r.Raw)
		}
	}
	if operation != i.operation {
		i.forget()
	}
	i.operation, i.working, i.target = operation, q, plan
}

func (c *client) checkPlan(i *instance, r testdrive.Response) {
	possible := append([]string{i.plan}, i.latePlans...)
	if i.working == update {
		possible = append(possible, i.target)
	}
	for _, name := range possible {
		if r.String("plan_id") == c.world.plans[name].ID {
			return
		}
	}
	c.world.wrong("instance %s should have a plan of %v: %s", i.id, possible, r.Raw)
}

func (c *client) learnBinding(i *instance, q request, b *credential, r testdrive.Response) {
	switch {
	case (q == bind || q == bindAgain || q == fetchOne) && (r.Status == http.StatusCreated || r.Status == http.StatusOK):
		reported, err := audit.ReadCredentials(r.Body["credentials"])
		if err != nil {
			c.world.wrong("%s of %s: %v", q, b.ID, err)
			return
		}
		if b.State == audit.Exists && !b.mayHave(reported, i.moved) {
			c.world.wrong("%s of %s: other credentials than before", q, b.ID)
		}
		b.State, b.Credentials, b.doubt = audit.Exists, reported, false
		c.write(i, b)
	case q == unbind && (r.Status == http.StatusOK || r.Status == http.StatusGone):
		b.State, b.doubt = audit.Gone, false
		if i.moved {
			b.Credentials = audit.Credentials{} // the port may be another's from now on
		}
	}
}

// mayHave reports whether the credentials of a binding may be those that were told now. A move changes the address.
func (b *credential) mayHave(reported audit.Credentials, moved bool) bool {
	return reported == b.Credentials || moved && reported.Username == b.Credentials.Username &&
		reported.Password == b.Credentials.Password && reported.Database == b.Credentials.Database
}

// write leaves a note in the database, which must be there as long as the instance is.
func (c *client) write(i *instance, b *credential) {
	if i.source != nil {
		i.arrived()
	}
	if i.note != "" || b.Role != "read-write" || len(i.bindings) > 1 {
		return
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := audit.Write(ctx, b.Credentials, b.ID); err != nil {
		if !c.world.excused(began) {
			c.world.wrong("the account of %s cannot be used: %v", b.ID, err)
		}
		return
	}
	i.note = b.ID
}

// poll asks about the operation in progress.
func (c *client) poll(i *instance) {
	asked := time.Now()
	r, err := c.exchange(i, poll, nil, "")
	if !c.world.conclusive(i.id, poll, asked, r, err) {
		return
	}
	if r.Status != http.StatusOK {
		c.world.wrong("poll of %s for %s: status %d: %s", i.id, i.operation, r.Status, r.Raw)
		i.forget()
		return
	}
	switch r.String("state") {
	case "succeeded":
		if i.working == backUp && i.note != "" {
			i.backup = backupID.FindString(r.String("description"))
		}
		c.ended(i, map[request]phase{create: ready, update: ready, backUp: ready, restore: ready, remove: absent}[i.working])
	case "failed":
		if !c.world.excused(asked) {
			c.world.wrong("%s of %s failed: %s", i.operation, i.id, r.Raw)
		}
		i.target = i.plan // as it was before
		c.ended(i, map[request]phase{create: failed, update: ready, backUp: ready, restore: ready, remove: failed}[i.working])
	}
}

var backupID = regexp.MustCompile(`b_\w+`)

// ended keeps how the operation ended. If it has been seen before that it ended, the phase is known.
func (c *client) ended(i *instance, end phase) {
	if i.working == update {
		i.plan = i.target
	}
	if i.phases[creating] || i.phases[updating] || i.phases[backing] || i.phases[changing] || i.phases[deleting] {
		i.phases = only(end)
	}
	if i.working == create && end == ready {
		i.arrived()
	}
	i.operation, i.working, i.target = "", "", ""
	if end == absent {
		i.gone()
	}
}

// fight sends any request about an instance that other clients work on too. Whatever its state, no other responses than
// these are right.
func (c *client) fight() {
	i := &instance{id: c.world.contended[c.random.IntN(len(c.world.contended))], plan: "shared-small"}
	right := map[request][]int{
		create: {200, 201, 400, 409, 422}, // 400: its deletion failed because of an outage
		update: {200, 202, 400, 404, 422},
		remove: {200, 202, 410},
		fetch:  {200, 404, 422},
		bind:   {200, 201, 400, 404, 422},
		unbind: {200, 410, 422},
	}
	q := []request{create, create, create, update, remove, fetch, bind, bind, unbind}[c.random.IntN(9)]
	var b *credential
	if q == bind || q == unbind {
		b = &credential{Binding: audit.Binding{ID: fmt.Sprintf("%s-b%d", i.id, c.random.IntN(3)), Role: "read-write"}}
	}
	asked := time.Now()
	r, err := c.exchange(i, q, b, c.pick(related[i.plan]))
	if c.world.conclusive(i.id, q, asked, r, err) && !slices.Contains(right[q], r.Status) && !c.world.waited(asked, r) {
		c.world.wrong("%s of %s: status %d: %s", q, i.id, r.Status, r.Raw)
	}
}
