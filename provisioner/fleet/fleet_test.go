package fleet_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/store"
	"mysql-broker/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// newFleet returns a fleet whose store has no instances.
func newFleet(t *testing.T, launchers map[string]launcher.Launcher) *fleet.Fleet {
	return fleet.New(fleet.Config{Store: servers.Store(t), Launchers: launchers})
}

// address returns the address of an instance whose endpoint is not recorded.
func address(t *testing.T, f *fleet.Fleet, at store.Location) (fleet.Address, error) {
	return f.Address(t.Context(), store.Instance{ID: "i", Location: at})
}

// rack is a launcher whose servers consist of an id only.
type rack struct {
	launcher.Launcher // what the tests do not call is not there
	host              string
	ids               []string
	broken            error // of List
}

func (r *rack) Endpoint(_ context.Context, id string) (launcher.Endpoint, error) {
	if !slices.Contains(r.ids, id) {
		return launcher.Endpoint{}, launcher.ErrNotFound
	}
	return launcher.Endpoint{Host: r.host, Port: 3306}, nil
}

func (r *rack) Starting(id string) bool { return slices.Contains(r.ids, id) }

func (r *rack) Destroy(_ context.Context, id string) error {
	r.ids = slices.DeleteFunc(r.ids, func(there string) bool { return there == id })
	return nil
}

func (r *rack) List(context.Context) ([]string, error) { return r.ids, r.broken }

// Troubles says of each server that it is in trouble on its host.
func (r *rack) Troubles(context.Context) (map[string]launcher.Trouble, error) {
	all := map[string]launcher.Trouble{}
	for _, id := range r.ids {
		all[id] = launcher.Trouble(r.host)
	}
	return all, r.broken
}

func TestSeveralLaunchers(t *testing.T) {
	t.Parallel()
	here, there := &rack{host: "here.test", ids: []string{"d_1"}}, &rack{host: "there.test", ids: []string{"d_1", "d_2"}}
	f := newFleet(t, map[string]launcher.Launcher{"here": here, "there": there})
	all := []store.Location{store.DedicatedLocation("here", "d_1"), store.DedicatedLocation("there", "d_1"),
		store.DedicatedLocation("there", "d_2")}
	got, err := f.Dedicated(t.Context())
	assert.True(t, err == nil && got.Err() == nil && slices.Equal(got.There, all), "there are %+v, %v", got, err)
	here.broken = errors.New("no route to host")
	got, err = f.Dedicated(t.Context())
	assert.True(t, err == nil && got.Err() != nil && slices.Equal(got.There, all[1:]),
		"without the first launcher, there are %+v, %v", got, err)
	assert.Equal(t, map[string]error{"here": here.broken, "there": nil}, got.Asked, "what launchers answered")
	why, err := f.Trouble(t.Context(), all[1])
	assert.True(t, err == nil && why == "there.test", "a server is in trouble for %q, %v", why, err)
	why, err = f.Trouble(t.Context(), all[0])
	assert.Error(t, err, "the launcher that does not respond says %q", why)
	for _, at := range all {
		a, err := address(t, f, at)
		assert.True(t, err == nil && a.Host == at.Launcher+".test" && f.Starting(at),
			"%+v has the address %+v, %v", at, a, err)
	}
	assert.NoError(t, f.Destroy(t.Context(), all[1]))
	assert.Equal(t, [][]string{{"d_1"}, {"d_2"}}, [][]string{here.ids, there.ids}, "left")
	_, err = address(t, f, all[1])
	assert.ErrorIs(t, err, launcher.ErrNotFound, "the address of a server that is gone")
	recorded := store.Instance{Location: all[1], Endpoint: &store.Endpoint{Host: "recorded.test", Port: 1}}
	a, err := f.Address(t.Context(), recorded)
	assert.True(t, err == nil && a.Host == "recorded.test", "the launcher was asked for what is recorded: %+v, %v", a, err)
}

// TestLauncherOfAPlan looks up the launcher of plans with and without the key launcher.
func TestLauncherOfAPlan(t *testing.T) {
	t.Parallel()
	one := map[string]launcher.Launcher{"here": &rack{}}
	two := map[string]launcher.Launcher{"here": &rack{}, "there": &rack{}}
	for _, test := range []struct {
		launchers  map[string]launcher.Launcher
		name, want string // want is "" for fleet.ErrNoLauncher
	}{
		{nil, "", ""},
		{nil, "here", ""},
		{one, "", "here"},
		{one, "here", "here"},
		{one, "there", ""},
		{two, "there", "there"},
		{two, "", ""},
	} {
		l, err := fleet.New(fleet.Config{Launchers: test.launchers}).Launcher(test.name)
		assert.True(t, l.Name == test.want && errors.Is(err, fleet.ErrNoLauncher) == (test.want == ""),
			"of %d, %q is %q, %v", len(test.launchers), test.name, l.Name, err)
	}
	none := newFleet(t, nil)
	at := store.DedicatedLocation("here", "d_1")
	_, errAddress := address(t, none, at)
	_, errList := none.Dedicated(t.Context())
	for _, err := range []error{errAddress, errList, none.Destroy(t.Context(), at), none.Keep(t.Context(), at)} {
		assert.ErrorIs(t, err, fleet.ErrNoLauncher, "without a launcher")
	}
	assert.False(t, none.Starting(at), "a server that nobody runs is being started")
	_, err := address(t, none, store.SharedLocation("unknown"))
	assert.Error(t, err, "a shared server that is not configured has an address")
}
