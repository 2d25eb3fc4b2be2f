package kubernetes_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes"
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
				assert.Equal(t, []string{"init.sql", "initialise.sh", "my.cnf", "prepare.sh"}, namesOf(p.filesOf(t, spec)),
					"files that brokers of before expect")
				p.merge(t, p.Path("services/"+objectName(spec)+"/status"), map[string]any{"status": map[string]any{
					"loadBalancer": map[string]any{"ingress": []any{map[string]string{"hostname": outside}}}}})
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := l.Launch(ctx, spec, func(string) {})
			assert.Error(t, err, "a server is up at once")
			block, _ := pem.Decode(p.filesOf(t, spec)["server.pem"])
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
