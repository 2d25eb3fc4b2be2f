package kubernetes_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes"
	"mysql-broker/provisioner/launcher/launchertest"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/test/limits"
	"mysql-broker/test/testdrive"
)

// The certificate of a server has the names of its Service and the address that applications outside of the cluster use.
// That of a load balancer is waited for.
func TestCertificateNames(t *testing.T) {
	t.Parallel()
	for access, outside := range map[kubernetes.Access]string{kubernetes.InCluster: "",
		kubernetes.NodePort: "nodes.example.com", kubernetes.LoadBalancer: "lb-1.example.com"} {
		t.Run(string(access), func(t *testing.T) {
			t.Parallel()
			p := newObjects(t)
			p.cfg.Service, p.cfg.Host = access, ""
			if access == kubernetes.NodePort {
				p.cfg.Host = outside
			}
			l, spec := p.open(t), newSpec()
			if access == kubernetes.LoadBalancer {
				_, err := l.Launch(t.Context(), spec, func(string) {})
				says(t, err, launcher.Wait, "Waiting for the load balancer's address")
				p.Do(t, http.MethodPatch, p.Path("services/"+objectName(spec)+"/status"), map[string]any{"status": map[string]any{
					"loadBalancer": map[string]any{"ingress": []any{map[string]string{"hostname": outside}}}}}, nil)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := l.Launch(ctx, spec, func(string) {})
			assert.Error(t, err, "a server is up at once")
			var secret struct{ Data map[string][]byte }
			p.Do(t, http.MethodGet, p.Path("secrets/"+objectName(spec)), nil, &secret)
			block, _ := pem.Decode(secret.Data["server.pem"])
			require.NotNil(t, block, "the Secret has no certificate")
			leaf, err := x509.ParseCertificate(block.Bytes)
			require.NoError(t, err)
			assert.Contains(t, leaf.DNSNames, objectName(spec)+"."+p.Name+".svc")
			if outside != "" {
				assert.Contains(t, leaf.DNSNames, outside)
			}
		})
	}
}

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
