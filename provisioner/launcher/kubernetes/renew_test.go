package kubernetes_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes"
	"mysql-broker/provisioner/launcher/launchertest"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/test/limits"
	"mysql-broker/test/testdrive"
)

// A server that has a CA of its own gets certificates of the CAs that take over, one after the other. Clients learn of
// each CA before it is in use, and of its end afterwards. Sessions stay open, and what is recorded is what the server
// has.
func TestRenewal(t *testing.T) {
	eachImage(t, func(t *testing.T, image kubernetes.Image) {
		p := newPlace(t, image)
		spec := newSpec()
		before := launch(t, p.open(t), spec)
		guest := visit(t, spec, before)
		first, second := launchertest.NewAuthority(t), launchertest.NewAuthority(t)
		configured := &launchertest.Authorities{}
		configured.Set(first, false, first)
		var mu sync.Mutex
		recorded := launcher.Endpoint{}
		p.cfg.Supervise, p.cfg.Authority, p.cfg.RenewInterval = true, configured.Get, 100*time.Millisecond
		p.cfg.Exec = func(ctx context.Context, _ string, e launcher.Endpoint, statement string) error {
			return mysqladmin.Exec(ctx, mysqladmin.Config{Name: spec.ID, Addr: e.AdminAddress(), ServerName: e.Host,
				User: spec.AdminUser, Password: spec.AdminPassword, CA: e.CACertificate, MaxConns: 2}, statement)
		}
		p.cfg.RecordEndpoint = func(_ context.Context, id string, e launcher.Endpoint) error {
			mu.Lock()
			defer mu.Unlock()
			if id == spec.ID {
				recorded = e
			}
			return nil
		}
		l := p.open(t)
		trusted := func() string {
			mu.Lock()
			defer mu.Unlock()
			return string(recorded.CACertificate)
		}
		verified := func(ca []byte) bool {
			e := before
			e.CACertificate = ca
			return launchertest.Connect(t, spec, e).PingContext(t.Context()) == nil
		}
		testdrive.Eventually(t, limits.Stuck, "clients to learn of both CAs", func() bool {
			return strings.Contains(trusted(), string(before.CACertificate)) &&
				strings.Contains(trusted(), string(first.Certificate))
		})
		assert.True(t, verified(before.CACertificate) && !verified(first.Certificate),
			"the server has another certificate before it is to have one")
		configured.Set(first, true, first)
		testdrive.Eventually(t, limits.Stuck, "a certificate of the first CA", func() bool {
			return trusted() == string(first.Certificate) && verified(first.Certificate)
		})
		configured.Set(second, true, second, first)
		testdrive.Eventually(t, limits.Stuck, "a certificate of the second CA", func() bool {
			return trusted() == string(second.Certificate)+string(first.Certificate) && verified(second.Certificate)
		})
		ids, err := l.SignedBy(t.Context(), first.Certificate)
		assert.True(t, err == nil && len(ids) == 0, "the first CA still has signed for %q, %v", ids, err)
		configured.Set(second, true, second)
		testdrive.Eventually(t, limits.Stuck, "clients to forget the first CA", func() bool {
			return trusted() == string(second.Certificate)
		})
		// It records before it changes.
		testdrive.Eventually(t, limits.Stuck, "the launcher to return the CA that is recorded", func() bool {
			e, err := l.Endpoint(t.Context(), spec.ID)
			return err == nil && string(e.CACertificate) == trusted()
		})
		assert.NoError(t, guest.PingContext(t.Context()), "a session has ended")
	})
}
