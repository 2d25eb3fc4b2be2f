package doctor_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/doctor"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
	"mysql-broker/test/testdrive"
)

func TestDedicatedServers(t *testing.T) {
	eachServer(t, func(f *fixture) {
		i := f.Provision(dedicatedPlan)
		f.bind(i, plan.ReadWrite) // goes with the server, and is not looked for on its own
		f.expect(f.doctor)

		f.Must(syscall.Kill(testdrive.Mysqlds(f, f.Env["LAUNCHER_DIR"])[0], syscall.SIGSTOP)) // it hangs
		found := f.expect(f.doctor, "unreachable dedicated server "+i.Location.Server)
		assert.True(f, found[0].InstanceID == i.ID && !found[0].Repairable, "%+v", found[0])
		command := strings.Fields(regexp.MustCompile("pkill [^,]*").FindString(found[0].ToDo))
		f.Must(exec.Command(command[0], command[1:]...).Run())
		testdrive.Eventually(f, "the server is ended", func() bool {
			return len(testdrive.Mysqlds(f, f.Env["LAUNCHER_DIR"])) == 0
		})
		f.expect(f.doctor, "unreachable dedicated server "+i.Location.Server)
		assert.Empty(f, testdrive.Mysqlds(f, f.Env["LAUNCHER_DIR"]), "the examination started servers")
		f.Must(f.Launcher.StartAll(f.Context()))
		f.expect(f.doctor)

		f.forgetInstance(i)
		found = f.expect(f.doctor, "orphan dedicated server "+i.Location.Server)
		f.repair(found[0], "destroyed")
		f.expect(f.doctor)
		assert.Empty(f, testdrive.Processes(f, f.Env["LAUNCHER_DIR"]), "still running")
		_, err := f.Launcher.Endpoint(f.Context(), i.Location.Server)
		assert.ErrorIs(f, err, launcher.ErrNotFound, "the orphan's endpoint")
	})
}

// If a broker dies during a rotation, the server may already have the next password. One of the two works.
func TestDedicatedServerWithTheNextPassword(t *testing.T) {
	eachServer(t, func(f *fixture) {
		for _, knows := range []bool{false, true} {
			i := f.Provision(dedicatedPlan)
			f.InTx(func(tx *store.Tx) error { return tx.SetNextAdminPassword(i.ID, "the-next-password") })
			if knows {
				f.Must(f.Fleet.ChangeAdminPassword(f.Context(), i.Location, i.AdminPassword, "the-next-password", "lock",
					func() error { return nil }))
			}
			f.expect(f.doctor)
			b := f.bind(i, plan.ReadWrite)
			f.unbind(b)
		}
	})
}

func TestDedicatedServerThatIsGoneOrForeign(t *testing.T) {
	eachServer(t, func(f *fixture) {
		gone := store.DedicatedLocation("process", engine.NewName("d_"))
		f.InTx(func(tx *store.Tx) error {
			tx.Adopt(store.InstanceCopy{ID: "i", Database: engine.NewName("db_")}, gone)
			return nil
		})
		found := f.expect(f.doctor, "missing dedicated server "+gone.Server)
		assert.False(f, found[0].Repairable)
		f.refuses(found[0])

		other := engine.NewName("d_")
		dir := filepath.Join(f.Env["LAUNCHER_DIR"], "instances", other)
		f.Must(os.Mkdir(dir, 0o711))
		r, err := f.doctor.Examine(f.Context())
		f.Must(err)
		f.refusesUnrecorded(r, other)
		assert.DirExists(f, dir, "the foreign server was touched")

		noLauncher := doctor.New(doctor.Config{Store: f.Store, Plans: plans(),
			Fleet: fleet.New(fleet.Config{Store: f.Store, Shared: f.OpenShared(f.Config.Shared...)})})
		f.expect(noLauncher, "unreachable launcher process")
		f.forgetInstance(store.Instance{ID: "i"})
		f.expect(noLauncher)
	})
}

// restrictedLauncher is one to which an operator grants rights.
type restrictedLauncher struct {
	launcher.Launcher
	missing, advice string
	silent, refusal error
}

func (l restrictedLauncher) MissingRights(context.Context) (string, error) {
	return l.missing, l.silent
}
func (l restrictedLauncher) Advice() string                                { return l.advice }
func (l restrictedLauncher) Try(_ context.Context, of launcher.Spec) error { return l.refusal }

// A launcher that lacks rights or does not respond is the only finding about it. Otherwise the plans whose servers it
// would always refuse are found, and no plan of another launcher.
func TestRightsOfLaunchers(t *testing.T) {
	t.Parallel()
	refusal := &launcher.Error{Action: launcher.GiveUp, Err: errors.New("no such storage class")}
	for name, test := range map[string]struct {
		far  restrictedLauncher
		want string // as "problem kind name: what to do"
	}{
		"has all rights": {restrictedLauncher{}, ""},
		"gives advice":   {restrictedLauncher{advice: "name digests"}, "limited launcher far: name digests"},
		"lacks rights":   {restrictedLauncher{missing: "grant create", refusal: refusal}, "deviating launcher far: grant create"},
		"does not respond": {restrictedLauncher{silent: errors.New("no route"), refusal: refusal}, "unreachable launcher far: make " +
			"it reachable, or add it to the configuration again; the state of the 0 resources recorded for it is unknown: no route"},
		"refuses a plan": {restrictedLauncher{refusal: fmt.Errorf("try: %w", refusal)}, "refused plan large: change the plan, " +
			"or what the launcher far has for it: try: no such storage class"},
		"has no room":          {restrictedLauncher{refusal: launcher.NoRoom(errors.New("quota"))}, ""},
		"fails for the moment": {restrictedLauncher{refusal: errors.New("no route")}, ""},
	} {
		d := doctor.New(doctor.Config{Plans: plan.Set{{Name: "shared", Kind: plan.Shared},
			{Name: "small", Kind: plan.Dedicated, Launcher: "near"}, {Name: "large", Kind: plan.Dedicated, Launcher: "far"}},
			Fleet: fleet.New(fleet.Config{Launchers: map[string]launcher.Launcher{"near": restrictedLauncher{}, "far": test.far}})})
		got := ""
		for _, f := range d.CheckLaunchers(t.Context()) {
			got += fmt.Sprintf("%s %s %s: %s", f.Problem, f.Kind, f.Name, f.ToDo)
		}
		assert.Equal(t, test.want, got, name)
	}
}
