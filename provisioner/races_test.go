package provisioner_test

import (
	"cmp"
	"database/sql"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner"
	"mysql-broker/provisioner/bindings"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/instances"
	"mysql-broker/provisioner/plan"
	"mysql-broker/test/audit"
	"mysql-broker/test/inprocess"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// replicas are brokers that share only PostgreSQL and the servers, and each must know at once what the others do.
type replicas struct {
	brokers [3]*provisioner.Provisioner
	plans   map[string]plan.Plan
	tasks   testdrive.Tasks
	root    *sql.DB // an administrator's connections to the shared server
}

// TestRacesOverReplicas asks replicas at the same time. In the end, nothing is left of what was deleted.
func TestRacesOverReplicas(t *testing.T) {
	t.Parallel()
	server := testdrive.Private(t, servers.Any(t).Flavour)
	env := testdrive.Environment(t, server)
	all := replicas{tasks: testdrive.OpenTasks(t, env), plans: map[string]plan.Plan{}}
	plans := shipped(t, env)
	for n, p := range plans {
		plans[n].MaxBindings = 3 * racers
		if p.Name == "shared-async" {
			plans[n].MaxBindings, plans[n].Limits.PerOrganization = 3, 2
		}
		all.plans[p.Name] = plans[n]
	}
	var site *inprocess.Site
	for n := range all.brokers {
		site = inprocess.New(t, server, env, plans)
		all.brokers[n] = site.Broker
	}
	all.root = site.Root
	t.Run("together", func(t *testing.T) {
		for race, of := range map[string]struct {
			run   func(*testing.T, replicas, plan.Plan)
			plans string
		}{
			"identical provisions":                    {raceSameProvisions, "shared-small shared-async dedicated-small"},
			"deletion during creation":                {raceDeletionDuringCreation, "shared-small shared-async dedicated-small"},
			"binds and unbinds":                       {raceBinds, "shared-small"},
			"updates and binds against a deletion":    {raceDeletionWithOthers, "shared-small shared-async"},
			"more bindings and instances than may be": {raceForLimits, "shared-async"},
		} {
			for name := range strings.FieldsSeq(of.plans) {
				t.Run(race+" of "+name, func(t *testing.T) {
					t.Parallel()
					of.run(t, all, all.plans[name])
				})
			}
		}
	})
	var deadlocks int
	all.tasks.Scan(t, &deadlocks, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
	assert.Equal(t, 0, deadlocks, "%d deadlocks in PostgreSQL", deadlocks)
	for _, found := range audit.Check(t.Context(), audit.World{Shared: site.Root, Launchers: testdrive.Inspectors(env),
		Records: audit.OpenRecords(t, env["DATABASE_URL"], env["ENCRYPTION_KEYSET"])}) {
		t.Error(found)
	}
}

const racers = 8

// outcomes are words for what was answered, by how many were.
type outcomes map[string]int

// race asks the replicas in turn, all at the same time, and waits until no operation on the instance is in progress.
// Those that are begun by requests of one kind, the first word of an outcome, are one. Every outcome must be possible.
func (all replicas) race(t *testing.T, id string, possible string, ask func(n int, b *provisioner.Provisioner) string) outcomes {
	t.Helper()
	answers := make([]string, racers)
	var asking sync.WaitGroup
	for n := range racers {
		asking.Go(func() { answers[n] = ask(n, all.brokers[n%len(all.brokers)]) })
	}
	asking.Wait()
	got, begun := outcomes{}, map[string]string{}
	for _, answer := range answers {
		what, operation, _ := strings.Cut(answer, " as ")
		got[what]++
		assert.Contains(t, strings.Split(possible, ", "), what, answer)
		other, found := begun[what]
		assert.False(t, found && other != operation, "%s: %s and %s", what, operation, other)
		begun[what] = operation
	}
	all.tasks.Until(t, "all operations end",
		"SELECT count(*) = 0 FROM task WHERE state = 'in progress' AND instance_id = '"+id+"'")
	return got
}

// expect fails the test unless one request had the outcome won and all others lost.
func (got outcomes) expect(t *testing.T, won, lost string) {
	assert.Equal(t, outcomes{won: 1, lost: racers - 1}, got)
}

// told is the outcome of a request.
func told(verb string, r engine.Result, err error) string {
	refused := engine.Explain(err)
	switch {
	case err != nil && refused == nil:
		return verb + " failed: " + err.Error()
	case err != nil:
		return verb + " " + cmp.Or(map[engine.Code]string{engine.Busy: "busy", engine.NotFound: "absent", engine.AlreadyDeleted: "gone",
			engine.Conflict: "conflict", engine.TooManyBindings: "full"}[refused.Code], refused.Sentence)
	case r.Operation != "":
		return verb + " begun as " + r.Operation
	case r.Existed:
		return verb + " existed"
	}
	return verb + " done"
}

// async says how platforms ask for operations on a plan.
func async(p plan.Plan) bool { return p.Name != "shared-small" }

func provision(b *provisioner.Provisioner, t *testing.T, id string, p plan.Plan) string {
	r, err := b.Provision(t.Context(), engine.ProvisionRequest{InstanceID: id, Plan: p, AcceptsIncomplete: async(p)})
	return told("provision", r, err)
}

func deprovision(b *provisioner.Provisioner, t *testing.T, id string, p plan.Plan) string {
	r, err := b.Deprovision(t.Context(), instances.DeprovisionRequest{InstanceID: id, Plan: p, AcceptsIncomplete: async(p)})
	return told("delete", r, err)
}

func bind(b *provisioner.Provisioner, t *testing.T, of plan.Plan, id, binding, app string) (string, bindings.Credentials) {
	c, existed, err := b.Bind(t.Context(), bindings.BindRequest{InstanceID: id, BindingID: binding, AppGUID: app, ServiceID: of.ServiceID,
		Parameters: plan.BindingParameters{Role: plan.ReadWrite}})
	return told("bind", engine.Result{Existed: existed}, err), c
}

// delete deletes an instance several times at once. All deletions that find it are one, and every replica knows of it.
func (all replicas) delete(t *testing.T, id string, p plan.Plan) {
	got := all.race(t, id, "delete done, delete existed, delete begun, delete gone", func(_ int, b *provisioner.Provisioner) string {
		return deprovision(b, t, id, p)
	})
	assert.NotEqual(t, racers, got["delete gone"], "the deletion was nobody's")
	all.expectGone(t, id, p)
}

func (all replicas) expectGone(t *testing.T, id string, p plan.Plan) {
	for _, b := range all.brokers {
		assert.Equal(t, "delete gone", deprovision(b, t, id, p), "after the deletion")
		_, err := b.Engine.Instance(t.Context(), id)
		assert.True(t, engine.Explain(err) != nil && engine.Explain(err).Code == engine.NotFound,
			"after the deletion, it is fetched: %v", err)
	}
}

func raceSameProvisions(t *testing.T, all replicas, p plan.Plan) {
	id := uuid.NewString()
	got := all.race(t, id, "provision done, provision begun, provision existed", func(_ int, b *provisioner.Provisioner) string {
		return provision(b, t, id, p)
	})
	if !async(p) {
		got.expect(t, "provision done", "provision existed")
	}
	said, _ := bind(all.brokers[0], t, p, id, "b", "")
	assert.Equal(t, "bind done", said, "of the one instance")
	assert.Equal(t, "provision existed", provision(all.brokers[1], t, id, p), "repeated")
	all.delete(t, id, p)
}

// A deletion cancels the creation, or comes after it. Either way nothing is left.
func raceDeletionDuringCreation(t *testing.T, all replicas, p plan.Plan) {
	id := uuid.NewString()
	all.race(t, id, "delete done, delete existed, delete begun, delete gone, provision existed, provision done, provision begun, provision busy",
		func(n int, b *provisioner.Provisioner) string {
			if n >= racers/2 {
				return deprovision(b, t, id, p)
			}
			return provision(b, t, id, p)
		})
	all.race(t, id, "delete done, delete existed, delete begun, delete gone", func(_ int, b *provisioner.Provisioner) string {
		return deprovision(b, t, id, p)
	})
	all.expectGone(t, id, p)
}

// A bind that succeeded and was not unbound later has an account; every other one has none.
func raceBinds(t *testing.T, all replicas, p plan.Plan) {
	id := uuid.NewString()
	require.Equal(t, "provision done", provision(all.brokers[0], t, id, p))
	var passwords sync.Map
	all.race(t, id, "bind done, bind existed", func(_ int, b *provisioner.Provisioner) string {
		said, c := bind(b, t, p, id, "same", "")
		passwords.Store(c.Password, true)
		return said
	}).expect(t, "bind done", "bind existed")
	for _, b := range all.brokers { // the password of before is the answer, whatever the tenant has changed
		said, c := bind(b, t, p, id, "same", "")
		passwords.Store(c.Password, true)
		assert.Equal(t, "bind existed", said, "repeated")
		testdrive.Exec(t, all.root, "ALTER USER '"+c.Account+"'@'%' IDENTIFIED BY 'the tenant''s own'")
	}
	n := len(maps.Collect(passwords.Range))
	assert.True(t, n == 1, "the answers have %d passwords", n)
	all.race(t, id, "bind done, bind conflict", func(n int, b *provisioner.Provisioner) string {
		said, _ := bind(b, t, p, id, "other", uuid.NewString())
		return said
	}).expect(t, "bind done", "bind conflict")
	unbind := func(b *provisioner.Provisioner) string {
		err := b.Unbind(t.Context(), bindings.UnbindRequest{InstanceID: id, BindingID: "same"})
		return told("unbind", engine.Result{}, err)
	}
	for range 5 {
		all.race(t, id, "unbind done, unbind gone", func(_ int, b *provisioner.Provisioner) string { return unbind(b) })
		all.race(t, id, "unbind done, unbind gone, bind done, bind existed, bind busy", func(n int, b *provisioner.Provisioner) string {
			if n%2 == 0 {
				return unbind(b)
			}
			said, _ := bind(b, t, p, id, "same", "")
			return said
		})
		bind(all.brokers[1], t, p, id, "same", "")
	}
	all.delete(t, id, p)
}

// Whatever the order, no account outlives the instance.
func raceDeletionWithOthers(t *testing.T, all replicas, p plan.Plan) {
	id := uuid.NewString()
	all.race(t, id, "provision done, provision begun, provision existed", func(_ int, b *provisioner.Provisioner) string {
		return provision(b, t, id, p)
	})
	all.race(t, id, "delete done, delete begun, update done, update begun, update absent, update busy, bind done, bind absent, bind busy, bind full",
		func(n int, b *provisioner.Provisioner) string {
			switch {
			case n == racers/2:
				return deprovision(b, t, id, p)
			case n%2 == 0:
				r, err := b.Update(t.Context(), engine.UpdateRequest{InstanceID: id, ServiceID: p.ServiceID, Plan: all.plans["shared-large"],
					AcceptsIncomplete: async(p)})
				return strings.Replace(told("update", r, err), "existed", "done", 1)
			}
			said, _ := bind(b, t, p, id, uuid.NewString(), "")
			return said
		})
	all.expectGone(t, id, p)
}

// No more are made than a plan and its limits allow.
func raceForLimits(t *testing.T, all replicas, p plan.Plan) {
	ids := make([]string, racers)
	var made sync.Map
	all.race(t, "", "made, full", func(n int, b *provisioner.Provisioner) string {
		ids[n] = uuid.NewString()
		_, err := b.Provision(t.Context(), engine.ProvisionRequest{InstanceID: ids[n], Plan: p, OrganizationGUID: "limited"})
		if refused, ok := errors.AsType[*engine.Error](err); ok && strings.Contains(refused.Sentence, "may have 2") {
			return "full"
		}
		made.Store(ids[n], err)
		return "made"
	})
	instances := maps.Collect(made.Range)
	assert.Len(t, instances, 2, "%d instances were made where 2 are allowed", len(instances))
	for id := range instances {
		got := all.race(t, id.(string), "bind done, bind full", func(_ int, b *provisioner.Provisioner) string {
			said, _ := bind(b, t, p, id.(string), uuid.NewString(), "")
			return said
		})
		assert.True(t, got["bind done"] == p.MaxBindings,
			"%d bindings were made where %d are allowed", got["bind done"], p.MaxBindings)
		all.delete(t, id.(string), p)
	}
}
