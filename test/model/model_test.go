// Package model tests the compiled broker against a model of the Open Service Broker API: platforms send random
// requests to three replicas, while processes die and stand still and connections break. What the platforms were told
// must be what the model allows, and in the end what there is.
package model

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/backups"
	"mysql-broker/test/audit"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestMain(m *testing.M) { servers.Main(m) }

// effort is how much a run does.
type effort struct {
	clients   int
	dedicated int           // clients with servers of their own, beside the others
	duration  time.Duration // with all faults over and over; 0: with these, once each
	replicas  []string
	outages   []string
	calm      time.Duration // at least, and up to three times as long, between two outages
}

// short is for every day. CHAOS=5m makes a run of five minutes.
var short = effort{clients: 3, replicas: []string{"kill", "pause"}, calm: time.Second,
	outages: []string{"PostgreSQL silent", "PostgreSQL's commits hang", "MySQL cut off", "PostgreSQL cut off", "MySQL killed",
		"PostgreSQL reset", "MySQL silent", "MySQL reset"}}

func chosen(t *testing.T) effort {
	text := os.Getenv("CHAOS")
	if text == "" {
		return short
	}
	if text == "long" {
		text = "5m"
	}
	duration, err := time.ParseDuration(text)
	require.NoError(t, err, "CHAOS")
	return effort{clients: 8, dedicated: 1, duration: duration, calm: 4 * time.Second}
}

// seed is that of CHAOS_SEED or a new one. The same seed makes the same choices; when they meet each other is up to
// the machine.
func seed(t *testing.T) uint64 {
	text := os.Getenv("CHAOS_SEED")
	if text == "" {
		return rand.Uint64()
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, "CHAOS_SEED")
	return n
}

func TestModel(t *testing.T) {
	t.Parallel()
	chosen, seed := chosen(t), seed(t)
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		t.Logf("to make the same choices again, set CHAOS_SEED=%d", seed)
		w := newWorld(t, s.Flavour, chosen.duration == 0)
		clients := w.run(chosen, seed)
		found := w.settle(clients)
		t.Logf("%v; %d discrepancies", w.counts, len(found))
	})
}

// errands are what clients of a short run do with data.
var errands = [][]request{{backUp, restore}, {backUp, restoreFrom}, {clone, move}}

// run lets clients and faults loose until it is enough.
func (w *world) run(e effort, seed uint64) []*client {
	var clients []*client
	random := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }
	for n := range e.clients + e.dedicated {
		c := &client{world: w, random: random(uint64(n)), name: fmt.Sprintf("client%d", n),
			plans: []string{"shared-small", "shared-small", "shared-large", "shared-async"}}
		if n >= e.clients {
			c.plans = []string{"dedicated-small"}
		}
		c.errands, c.busy = slices.Clone(errands[n%len(errands)]), e.duration > 0
		clients = append(clients, c)
	}
	until := time.Now().Add(e.duration)
	over := make(chan struct{})
	var working, failing sync.WaitGroup
	for _, c := range clients {
		working.Go(func() { c.run(over) })
	}
	failing.Go(func() { w.breakThings(e, random(1000), until) })
	w.breakReplicas(e, random(1001), until)
	failing.Wait()
	close(over)
	working.Wait()
	return clients
}

// breakThings causes outages, until the run is long enough; those of a short run in any order.
func (w *world) breakThings(e effort, random *rand.Rand, until time.Time) {
	kinds := slices.Clone(e.outages)
	random.Shuffle(len(kinds), func(a, b int) { kinds[a], kinds[b] = kinds[b], kinds[a] })
	all := slices.Sorted(maps.Keys(outages))
	for e.duration > 0 && time.Now().Before(until) || len(kinds) > 0 {
		time.Sleep(e.calm + time.Duration(random.Int64N(2*int64(e.calm))))
		if e.duration > 0 {
			kinds = []string{all[random.IntN(len(all))]}
		}
		w.outage(kinds[0], random)
		kinds = kinds[1:]
	}
}

// breakReplicas is breakThings for the brokers themselves.
func (w *world) breakReplicas(e effort, random *rand.Rand, until time.Time) {
	for _, kind := range e.replicas {
		replicaFaults[kind](w, random)
	}
	for e.duration > 0 && time.Now().Before(until) {
		kind := []string{"kill", "kill", "kill", "kill", "pause", "stop"}[random.IntN(6)]
		replicaFaults[kind](w, random)
	}
}

// settle ends all that is under way, compares what the platforms know with what there is, and deletes everything. It
// returns what did not agree.
func (w *world) settle(clients []*client) (found []string) {
	w.restart()
	w.awaitIdle()
	for _, c := range clients {
		c.seekOrphans()
	}
	for _, c := range clients {
		for _, i := range c.all {
			c.resolve(i)
		}
	}
	for _, id := range w.contended {
		i := &instance{id: id, plan: "shared-small", phases: phases{absent: true, ready: true, failed: true}}
		clients[0].end(i)
	}
	found = w.audit(reported(clients))
	for _, c := range clients {
		for _, i := range c.all {
			c.end(i)
		}
	}
	found = append(found, w.audit(reported(clients))...)
	for _, sentence := range found {
		w.wrong("%s", sentence)
	}
	return found
}

// restart replaces all brokers in an orderly way, so that no request that nobody waits for is under way any more.
func (w *world) restart() {
	for n := range w.replicas {
		w.replicas[n].Load().Signal(w.t, syscall.SIGTERM)
	}
	for n := range w.replicas {
		w.replicas[n].Load().Wait(w.t)
	}
	for n := range w.replicas {
		w.start(n)
	}
}

// awaitIdle waits until no task is in progress, and backups that a deprovision has interrupted are deleted, which brokers
// otherwise do every hour. A task that failed often rests for up to a minute.
func (w *world) awaitIdle() {
	if _, err := w.records.Exec(context.Background(), "UPDATE schedule SET next_at = '-infinity' WHERE kind = $1",
		backups.PurgeBackups); err != nil {
		w.t.Fatal(err)
	}
	testdrive.Eventually(w.t, "all tasks end", func() bool {
		var n int
		err := w.records.QueryRow(context.Background(), `SELECT (SELECT count(*) FROM task WHERE state = 'in progress') +
			(SELECT count(*) FROM backup WHERE state <> 'complete')`).Scan(&n)
		return err == nil && n == 0
	})
}

// seekOrphans reports instances that exist although, after the platform's last request for them, the broker reported
// them as deleted.
func (c *client) seekOrphans() {
	for _, i := range c.all {
		if !i.toldGone {
			continue
		}
		if r := c.expect(i, remove, nil, 410); r.Status != 410 {
			c.world.wrong("Orphan: instance %s is there, and the platform was told that it is gone", i.id)
		}
	}
}

// resolve finds out what has become of requests that were not answered, and deletes what the platform gave up.
func (c *client) resolve(i *instance) {
	if i.operation != "" {
		c.poll(i)
	}
	if now := i.possible(); i.doubt == create || i.doubt == remove || now[absent] || now[failed] {
		c.end(i)
		return
	}
	for _, b := range i.bindings {
		if b.doubt || b.late && b.State == audit.Gone {
			c.expect(i, unbind, b, 200, 410)
			b.State = audit.Gone
		}
	}
	r := c.expect(i, fetch, nil, 200)
	c.checkPlan(i, r)
	for name, plan := range c.world.plans {
		if plan.ID == r.String("plan_id") {
			i.plan = name
		}
	}
	i.phases, i.late, i.latePlans, i.doubt = only(ready), map[request]bool{}, nil, ""
	if i.source != nil {
		i.arrived()
	}
	for _, b := range i.bound() {
		if !i.moved {
			continue
		}
		reported, err := audit.ReadCredentials(c.expect(i, fetch, b, 200).Body["credentials"])
		if err != nil || !b.mayHave(reported, i.moved) {
			c.world.wrong("binding %s has other credentials at the end (%v)", b.ID, err)
			continue
		}
		b.Credentials = reported
	}
}

// end deletes an instance that may be there.
func (c *client) end(i *instance) {
	r := c.expect(i, remove, nil, 200, 202, 410)
	if r.Status == 202 {
		state, _ := c.world.replicas[0].Load().AwaitOperation(c.world.t, i.id, r.String("operation"))
		if state != "succeeded" {
			c.world.wrong("the deletion of %s %s", i.id, state)
		}
	}
	if i.phases.is(ready) && r.Status == 410 {
		c.world.wrong("instance %s is gone", i.id)
	}
	i.phases = only(absent)
	i.gone()
}

// expect sends a request when nothing fails any more. On a busy machine that is told "not now", it asks again.
func (c *client) expect(i *instance, q request, b *credential, statuses ...int) testdrive.Response {
	wire := c.world.wire(i, q, b, "")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := c.world.send(ctx, c.random, q, wire)
	for err == nil && c.world.notNow(r) && ctx.Err() == nil {
		c.world.count("answer", "503 without an outage")
		if q == remove {
			i.phases[absent] = true // it may be done nevertheless
		}
		c.pause()
		r, err = c.world.send(ctx, c.random, q, wire)
	}
	if err != nil || !slices.Contains(statuses, r.Status) {
		c.world.wrong("%s of %s (phases %v, late %v) at the end: %v, status %d: %s", q, i.id, i.phases, i.late, err, r.Status,
			r.Raw)
	}
	return r
}

// told returns what the platforms know now.
func reported(clients []*client) (all audit.Reported) {
	for _, c := range clients {
		for _, i := range c.all {
			state := audit.Gone
			if i.phases.is(ready) {
				state = audit.Exists
			}
			all.Instances = append(all.Instances, audit.Instance{ID: i.id, State: state, Note: i.note,
				PlanID: c.world.plans[i.plan].ID})
			for _, b := range i.bindings {
				all.Bindings = append(all.Bindings, b.Binding)
			}
		}
	}
	return all
}
