package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"mysql-broker/test/audit"
	"mysql-broker/test/platform"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// tenant creates and deletes instances, one after the other: through the broker, or without it.
type tenant interface {
	provision() error // of a new instance
	bind() error
	account() (audit.Credentials, error) // of the binding, after bind
	unbind() error
	deprovision() error
}

// newTenants creates n tenants that use a new broker, and n that use none, on the same servers.
func newTenants(b *testing.B, s servers.MySQL, n int) (through, without []tenant) {
	b.Helper()
	env := environment(b, s)
	broker := testdrive.Start(b, env)
	for range n {
		through = append(through, newClient(b, broker, "shared-small", 0))
	}
	return through, newRawTenants(b, s, env["DATABASE_URL"], n)
}

// client is a platform of the broker.
type client struct {
	*platform.World
	plan    platform.Plan
	id      string // of its instance
	binding string
	last    platform.Outcome
}

func newClient(b *testing.B, broker *testdrive.Broker, plan string, pollEach time.Duration) *client {
	b.Helper()
	send := func(method, path string, body any) (testdrive.Response, error) {
		return broker.Send(method, path, body, nil)
	}
	return &client{World: &platform.World{Send: send, PollEach: pollEach}, plan: platform.NamedPlan(b, plan)}
}

// run carries an operation out, by one request and polls.
func (c *client) run(q platform.Request) error {
	r, err := c.Send(q.Method, q.Path, q.Body)
	if err == nil {
		c.last, err = c.Conclude(q, r)
	}
	if err == nil && c.last.Failed {
		err = fmt.Errorf("%s failed: %s", q.Kind, c.last.Raw)
	}
	return err
}

func (c *client) provision() error {
	c.id = uuid.NewString()
	return c.run(c.plan.Provision(c.id))
}

func (c *client) bind() error {
	c.binding = uuid.NewString()
	return c.run(c.plan.Bind(c.id, c.binding))
}

func (c *client) account() (audit.Credentials, error) {
	return audit.ReadCredentials(c.last.Body["credentials"])
}

func (c *client) unbind() error      { return c.run(c.plan.Unbind(c.id, c.binding)) }
func (c *client) deprovision() error { return c.run(c.plan.Deprovision(c.id)) }

// visited is a tenant whose account has an open session at the unbind, as if its application still ran.
type visited struct {
	tenant
	ctx     context.Context
	db      *sql.DB
	session *sql.Conn
}

// bind also logs in.
func (v *visited) bind() error {
	if err := v.tenant.bind(); err != nil {
		return err
	}
	c, err := v.account()
	if err != nil {
		return err
	}
	if v.db, err = c.Open(); err != nil {
		return err
	}
	v.session, err = v.db.Conn(v.ctx)
	return err
}

// deprovision also makes sure that the unbind has ended the session.
func (v *visited) deprovision() error {
	if err := v.session.PingContext(v.ctx); err == nil {
		return errors.New("the account's session goes on after the unbind")
	}
	return errors.Join(v.db.Close(), v.tenant.deprovision())
}
