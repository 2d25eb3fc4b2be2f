package doctor_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/bindings"
	"mysql-broker/provisioner/doctor"
	"mysql-broker/provisioner/instances"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
	"mysql-broker/test/inprocess"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestMain(m *testing.M) { servers.Main(m) }

var (
	sharedPlan = plan.Plan{ID: "shared", ServiceID: "mysql", Kind: plan.Shared,
		Async: plan.AsyncNever, MaxStorageMB: 100, MaxConnections: 7, MaxBindings: 10}
	dedicatedPlan = plan.Plan{ID: "dedicated", ServiceID: "mysql", Kind: plan.Dedicated,
		Async: plan.AsyncPreferred, MaxStorageMB: 256, MemoryMB: 256, MaxConnections: 7, MaxBindings: 10,
		Events: true}
)

// fixture is a site with its doctor.
type fixture struct {
	*inprocess.Site
	doctor *doctor.Doctor
}

func eachServer(t *testing.T, test func(f *fixture)) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) { test(newFixture(t, s)) })
}

func newFixture(t *testing.T, s servers.MySQL) *fixture {
	f := &fixture{Site: inprocess.New(t, s, testdrive.Environment(t, s), plans())}
	f.doctor = f.doctorOf(f.Fleet.Shared)
	return f
}

func plans() []plan.Plan { return []plan.Plan{sharedPlan, dedicatedPlan} }

func (f *fixture) doctorOf(s *shared.Servers) *doctor.Doctor {
	return doctor.New(doctor.Config{Store: f.Store, Plans: plans(), Fleet: f.FleetOf(s)})
}

func (f *fixture) exec(statements ...string) { testdrive.Exec(f.T, f.Root, statements...) }

func (f *fixture) databaseExists(name string) bool {
	return testdrive.Read[bool](f.T, f.Root, "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = ?", name)
}

func (f *fixture) accountExists(name string) bool {
	return testdrive.Read[bool](f.T, f.Root, "SELECT COUNT(*) FROM mysql.user WHERE user = ?", name)
}

// binding is what is recorded of one, and its login.
type binding struct {
	store.Binding
	login testdrive.Credentials
}

func (f *fixture) bind(i store.Instance, role plan.Role) binding {
	return f.bindWith(i, plan.BindingParameters{Role: role})
}

func (f *fixture) bindWith(i store.Instance, parameters plan.BindingParameters) binding {
	id := uuid.NewString()
	login := f.Bind(i, id, parameters)
	b, err := f.Store.Bindings.Get(f.Context(), i.ID, id)
	f.Must(err)
	return binding{b, login}
}

// forgetInstance deletes the record of an instance, which no operation does.
func (f *fixture) forgetInstance(i store.Instance) {
	f.InTx(func(tx *store.Tx) error { tx.DeleteInstance(i.ID); return nil })
}

// find examines, and leaves out what belongs to other tests, of which this store has no record.
func (f *fixture) find(d *doctor.Doctor) []doctor.Finding {
	r, err := d.Examine(f.Context())
	f.Must(err)
	return slices.DeleteFunc(r.Findings, func(f doctor.Finding) bool { return f.Problem == doctor.Unrecorded })
}

// expect expects these findings, each as "problem kind name", and returns them in that order.
func (f *fixture) expect(d *doctor.Doctor, want ...string) []doctor.Finding {
	found := f.find(d)
	var got []string
	for _, finding := range found {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s", finding.Problem, finding.Kind, finding.Name)))
	}
	require.Equal(f, want, got)
	return found
}

// repair fails the test unless it succeeds.
func (f *fixture) repair(finding doctor.Finding, want string) {
	done, err := f.doctor.Repair(f.Context(), finding)
	require.NoError(f, err, "%+v", finding)
	require.Equal(f, want, done, "%+v", finding)
}

// refuses fails the test if a finding is repaired.
func (f *fixture) refuses(finding doctor.Finding) {
	done, err := f.doctor.Repair(f.Context(), finding)
	assert.Error(f, err, "repair of %+v: %q", finding, done)
}

// refusesUnrecorded fails the test unless a report has something that no broker has recorded, which Repair leaves alone
// even as an orphan.
func (f *fixture) refusesUnrecorded(r doctor.Report, name string) doctor.Finding {
	at := slices.IndexFunc(r.Findings, func(f doctor.Finding) bool { return f.Name == name })
	require.GreaterOrEqual(f, at, 0, "%s is not listed", name)
	found := r.Findings[at]
	assert.True(f, found.Problem == doctor.Unrecorded && !found.Repairable, "%+v", found)
	f.refuses(found)
	forged := found
	forged.Problem, forged.Repairable = doctor.Orphan, true
	f.refuses(forged)
	return found
}

func (f *fixture) unbind(b binding) {
	f.Must(f.Broker.Unbind(f.Context(), bindings.UnbindRequest{InstanceID: b.InstanceID, BindingID: b.ID}))
}

func (f *fixture) delete(i store.Instance) error {
	_, err := f.Broker.Deprovision(f.Context(), instances.DeprovisionRequest{InstanceID: i.ID, Plan: sharedPlan})
	return err
}
