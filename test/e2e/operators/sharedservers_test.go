package operators

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// expectFormer expects that an instance is shown with its former place, on the server "old".
func expectFormer(t *testing.T, o testdrive.Operator, id string) {
	var shown struct {
		Moved    time.Time `json:"moved_at"`
		Server   string    `json:"former_server"`
		Until    time.Time `json:"former_until"`
		Bindings int       `json:"bindings_to_renew"`
	}
	o.Read(t, &shown, "instances", id)
	assert.True(t, shown.Server == "old" && shown.Until.Sub(shown.Moved) == 24*time.Hour && shown.Bindings == 1,
		"the former place is shown as %+v", shown)
	want := "old, until " + shown.Until.Format(time.RFC3339) + "; bindings to renew: 1\n"
	assert.Contains(t, o.Run(t, 0, "instances", id).Stdout, want, "instances")
}

// TestEvacuate moves the instances of a shared server to another one. There is also an exclusive server, for one instance
// of a plan that says so: a change of plan moves the data there, and back.
func TestEvacuate(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	private := testdrive.Private(t, s.Flavour)
	env := testdrive.Environment(t, s)
	own := testdrive.Described("own", private)
	own["exclusive"] = true
	list := []map[string]any{testdrive.Described("old", s), testdrive.Described("new", private), testdrive.Described("twin", s), own}
	env["MYSQL_SERVERS"], env["LAUNCHER"] = testdrive.Encode(t, list), "none"
	env["CATALOG"] = testdrive.CatalogWith(t, env["CATALOG"], "shared-large", "exclusive: true")
	p := testdrive.StartPlatform(t, s, env)
	o := p.Operator(env)
	assert.Equal(t, "new gets no more instances. It holds 0.\n", o.Run(t, 0, "drain", "new").Stdout, "drain")
	assert.Equal(t, []string{"new"}, o.IDs(t, "server", "servers", "--state", "drained"), "drained")
	o.Run(t, 0, "drain", "twin")
	testdrive.ExpectFigures(t, testdrive.StartPlatform(t, s, env), map[string]string{
		`mysql_broker_shared_server_drained{server="new"}`: "1", `mysql_broker_shared_server_drained{server="old"}`: "0"})

	first, ordinary := p.Provisioned(t, "shared-large", nil), p.Provisioned(t, "shared-small", nil)
	assert.Equal(t, []string{first.ID}, o.IDs(t, "id", "instances", "--server", "own"), "on the exclusive server")
	const taken = "server of this plan is taken"
	testdrive.ExpectRefusal(t, p.NewInstance(t, "shared-large").Provision(t, testdrive.Sync, nil), 400, taken)
	testdrive.ExpectRefusal(t, ordinary.UpdatePlan(t, testdrive.Async, "shared-large"), 400, taken)
	assert.Contains(t, o.Run(t, 1, "move", ordinary.ID, "own").Stderr, "is exclusive")
	testdrive.ExpectEmpty(t, first.Deprovision(t, testdrive.Sync), http.StatusOK)
	testdrive.ExpectError(t, ordinary.UpdatePlan(t, testdrive.Sync, "shared-large"), "AsyncRequired")
	ordinary.Await(t, ordinary.UpdatePlan(t, testdrive.Async, "shared-large").Operation(t))
	assert.Equal(t, []string{ordinary.ID}, o.IDs(t, "id", "instances", "--server", "own"), "on the exclusive server")
	testdrive.ExpectError(t, ordinary.UpdatePlan(t, testdrive.Sync, "shared-small"), "AsyncRequired")

	i := p.Provisioned(t, "shared-small", body{"context": testdrive.CloudFoundry})
	b, c := i.Bound(t, nil)
	testdrive.MakeObjectsAs(t, c)
	testdrive.Exec(t, c.Open(t), "CREATE TABLE written AS SELECT 1 AS id")
	r := o.Run(t, 1, "move", i.ID, "new")
	assert.Contains(t, r.Stderr, "full or drained", "a move to a drained server")
	o.Run(t, 0, "drain", "--undo", "twin")
	r = o.Run(t, 1, "move", i.ID, "twin")
	assert.Contains(t, r.Stderr, "same server", "a move to the same server under another name")
	o.Run(t, 0, "drain", "--undo", "new")
	r = o.Run(t, 0, "drain", "--evacuate", "old")
	assert.Contains(t, r.Stdout, i.ID+" is on new.", "the evacuation")
	moved := p.Credentials(t, b.Fetch(t).Expect(t, http.StatusOK))
	assert.NotEqual(t, c.Port, moved.Port, "the binding has the old address")
	testdrive.ExpectSame(t, c, moved)
	testdrive.Exec(t, moved.Open(t), "CALL add_item()")
	assert.Empty(t, o.IDs(t, "id", "instances", "--server", "old"), "on the evacuated server")
	o.Refuse(t, "kept for bindings that are older than the move: 1", "move", i.ID, "old")
	expectFormer(t, o, i.ID)
	b.Unbind(t).Expect(t, http.StatusOK)
	o.Run(t, 0, "drain", "--undo", "old")
	testdrive.Eventually(t, "the instance is moved back once its former place is removed", func() bool {
		r := testdrive.Run(t, env, "move", i.ID, "old")
		require.False(t, r.Status != 0 && !strings.Contains(r.Stderr, "is being removed"), "the move back: %s", r.Stderr)
		return r.Status == 0
	})
	d := p.Desk(t, env, nil)
	d.ExpectEnd(t, d.Latest(t, i), "succeeded")
}

// TestEveryConnectionTaken has clients take every connection of a shared server, and every one that becomes free. All
// requests of platforms succeed nevertheless.
func TestEveryConnectionTaken(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, server servers.MySQL) {
		private := testdrive.Private(t, server.Flavour)
		p, env := testdrive.PlatformOn(t, private, "LAUNCHER", "none")
		p.AwaitLog(t, `"msg":"shared server"`)
		takeConnections(t, p)

		i := p.MakeOwn(t, "shared-small")
		b, c := i.Bound(t, nil)
		testdrive.ExpectEmpty(t, i.UpdatePlan(t, testdrive.Sync, "shared-large"), http.StatusOK)
		// An application may be faster than the clients when the broker has closed a connection, but not each time.
		testdrive.Eventually(t, "an application is refused, as no connection is left", func() bool {
			db := testdrive.Connect(t, c.Fields(t))
			defer db.Close()
			return testdrive.ErrorNumber(db.PingContext(t.Context())) == 1040
		})
		testdrive.ExpectEmpty(t, b.Unbind(t), http.StatusOK)
		b, _ = i.Bound(t, nil)

		// A broker that starts only now gets in by the one connection that servers keep for it: enough for all but new
		// instances.
		p.Kill(t)
		i = i.Via(testdrive.StartPlatform(t, private, env))
		b.Instance = i
		testdrive.ExpectEmpty(t, b.Unbind(t), http.StatusOK)
		i.Bound(t, nil)
		testdrive.ExpectEmpty(t, i.Deprovision(t, testdrive.Sync), http.StatusOK)
	})
}

const maxConnections = 12

// takeConnections limits the server's connections, and returns once all are taken by clients of which each keeps one, or
// tries to get one, until the test ends. With one each, they leave alone what the server keeps for the broker: also who
// is refused occupies that for a moment.
func takeConnections(t *testing.T, p testdrive.Platform) {
	admin := p.Admin(t)
	hog := p.Server
	hog.User, hog.Password = "hog", rand.Text()
	testdrive.Exec(t, admin, fmt.Sprintf("CREATE USER hog IDENTIFIED BY '%s'", hog.Password),
		fmt.Sprintf("SET GLOBAL max_connections = %d", maxConnections))
	admin.Close()
	login, err := servers.Login(hog.Host, hog.Port, hog.User, hog.Password, hog.CA)
	require.NoError(t, err)
	connector, err := mysql.NewConnector(login)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		clients.Wait()
	})
	full := make(chan struct{})
	refused := sync.OnceFunc(func() { close(full) })
	for range maxConnections {
		clients.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
				conn, err := connector.Connect(ctx)
				if err == nil {
					<-ctx.Done()
					_ = conn.Close()
					return
				}
				if testdrive.ErrorNumber(err) == 1040 {
					refused()
				}
			}
		})
	}
	testdrive.Receive(t, full, "the server has no connection left")
}
