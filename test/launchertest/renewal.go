package launchertest

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/mysqladmin"
)

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
	var recorded atomic.Value // the CAs of the endpoint that was recorded last
	l := p.Supervise(t, launcher.Options{Supervise: true, Authority: configured.Get,
		RecordEndpoint: func(_ context.Context, id string, end launcher.Endpoint) error {
			if id == spec.ID {
				recorded.Store(string(end.CACertificate))
			}
			return nil
		},
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
			if err == nil && told(end.CACertificate) && recorded.Load() == string(end.CACertificate) {
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
