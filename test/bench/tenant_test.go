package bench

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"testing"

	"github.com/google/uuid"

	"mysql-broker/test/audit"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// tenant creates and deletes instances, one after the other: through the broker, or without it.
type tenant interface {
	provision() error // of a new instance
	bind() error
	account() (audit.Credentials, error) // of the binding
	unbind() error
	deprovision() error
}

// newTenants creates n tenants that use a new broker, and n that use none, on the same servers.
func newTenants(b *testing.B, s servers.MySQL, n int) (through, without []tenant) {
	b.Helper()
	env := environment(b, s)
	broker := testdrive.Start(b, env)
	for range n {
		through = append(through, &brokerTenant{instance: newInstance(b, broker, "shared-small")})
	}
	return through, newRawTenants(b, s, env["DATABASE_URL"], n)
}

// brokerTenant sends the requests that Cloud Foundry sends.
type brokerTenant struct {
	instance
	binding string // path
	bound   testdrive.Response
}

func (t *brokerTenant) provision() error {
	t.id = uuid.NewString()
	_, err := t.request(http.StatusCreated, "PUT", t.path(), t.body(nil))
	return err
}

func (t *brokerTenant) bind() (err error) {
	t.binding = t.newBinding()
	t.bound, err = t.request(http.StatusCreated, "PUT", t.binding,
		t.body(map[string]any{"bind_resource": map[string]any{"app_guid": "app"}}))
	return err
}

func (t *brokerTenant) account() (audit.Credentials, error) {
	return audit.ReadCredentials(t.bound.Body["credentials"])
}

func (t *brokerTenant) unbind() error {
	_, err := t.request(http.StatusOK, "DELETE", t.binding+"?"+t.query(), nil)
	return err
}

func (t *brokerTenant) deprovision() error {
	_, err := t.request(http.StatusOK, "DELETE", t.path()+"?"+t.query(), nil)
	return err
}

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
