package launchertest

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/mysqladmin"
)

// recorder keeps the endpoint that a launcher recorded last for a server.
type recorder struct {
	id string

	mu  sync.Mutex
	end launcher.Endpoint
}

func (r *recorder) record(_ context.Context, id string, end launcher.Endpoint) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if id == r.id {
		r.end = end
	}
	return nil
}

func (r *recorder) trusted() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.end.CACertificate
}

// A server that has a CA of its own, as all had once, gets certificates of the CAs that take over, one after the other.
// Clients learn of each CA before it is in use, and of its end afterwards. The server is never restarted for that, and
// its sessions stay.
func testRenewal(t *testing.T, p Place) {
	if p.Supervise == nil {
		t.Skip("the launcher renews no certificates")
	}
	spec := p.spec("one")
	old := p.Open(t)
	before := launch(t, old, spec)
	old.Close()
	guest := Visit(t, spec, before)
	first, second := NewAuthority(t), NewAuthority(t)
	configured := &Authorities{}
	configured.Set(first, false, first)
	recorded := recorder{id: spec.ID}
	l := p.Supervise(t, launcher.Options{Supervise: true, Authority: configured.Get, RecordEndpoint: recorded.record,
		Exec: func(ctx context.Context, _ string, e launcher.Endpoint, statement string) error {
			return mysqladmin.Exec(ctx, mysqladmin.Config{Name: spec.ID, Addr: e.AdminAddress(), ServerName: e.Host,
				User: spec.AdminUser, Password: spec.AdminPassword, CA: e.CACertificate, MaxConns: 2}, statement)
		}})
	verified := func(ca []byte) bool {
		end := before
		end.CACertificate = ca
		return Connect(t, spec, end).PingContext(bounded(t)) == nil
	}
	// What is recorded changes first, so clients are told of a CA once the launcher returns it.
	becomes := func(what string, told func(trusted []byte) bool) {
		for ctx := bounded(t); ; time.Sleep(50 * time.Millisecond) {
			end, err := l.Endpoint(ctx, spec.ID)
			if err == nil && told(end.CACertificate) && bytes.Equal(end.CACertificate, recorded.trusted()) {
				return
			}
			require.NoError(t, ctx.Err(), "%s; the endpoint: %v", what, err)
		}
	}
	becomes("clients are told of both CAs", func(trusted []byte) bool {
		return bytes.Contains(trusted, before.CACertificate) && bytes.Contains(trusted, first.Certificate)
	})
	assert.True(t, verified(before.CACertificate) && !verified(first.Certificate),
		"the server has another certificate before it is to have one")

	configured.Set(first, true, first)
	becomes("the server has a certificate of the first CA", func(trusted []byte) bool {
		return bytes.Equal(trusted, first.Certificate) && verified(first.Certificate)
	})
	both := append(bytes.Clone(second.Certificate), first.Certificate...)
	configured.Set(first, true, second, first)
	becomes("clients are told of the second CA", func(trusted []byte) bool { return bytes.Equal(trusted, both) })
	configured.Set(second, true, second, first)
	becomes("the server has a certificate of the second CA", func(trusted []byte) bool {
		return bytes.Equal(trusted, both) && verified(second.Certificate)
	})
	ids, err := l.SignedBy(bounded(t), first.Certificate)
	require.NoError(t, err)
	assert.Empty(t, ids, "the first CA still has signed for servers")
	configured.Set(second, true, second)
	becomes("clients forget the first CA", func(trusted []byte) bool { return bytes.Equal(trusted, second.Certificate) })
	assert.NoError(t, guest.PingContext(bounded(t)), "the server was restarted, or its sessions ended")
}
