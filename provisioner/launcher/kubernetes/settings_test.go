package kubernetes_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes"
	"mysql-broker/test/testdrive"
)

// filesOf are the files in the Secret of a server that have content.
func (p *place) filesOf(t *testing.T, spec launcher.Spec) map[string][]byte {
	files := p.get(t, p.secretOf(spec)).Data
	maps.DeleteFunc(files, func(_ string, content []byte) bool { return len(content) == 0 })
	return files
}

func namesOf(files map[string][]byte) []string { return slices.Sorted(maps.Keys(files)) }

// Files that somebody has removed from a Secret are made again by the next operation. Until then, nobody takes the server
// for one without TLS.
func TestFilesRemoved(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, sentence string
		change         map[string]any
		suspended      bool
		call           order
	}{
		{"resize", "Restarting mysqld with its new size", nil, false, restarting},
		{"launch", "Attaching the volume", map[string]any{"ca.pem": nil, "server-key.pem": ""}, false, launching},
		{"launch of a suspended server", "Waiting for a node", nil, true, launching},
		{"upgrade", "Stopping the server", nil, false, toLater},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p, l, spec := newServer(t)
			all := namesOf(p.filesOf(t, spec))
			if test.suspended {
				do(t, suspending(l, spec))
			}
			p.merge(t, p.secretOf(spec), map[string]any{"data": test.change})
			require.NotEqual(t, all, namesOf(p.filesOf(t, spec)))
			if !test.suspended {
				_, err := l.Endpoint(t.Context(), spec.ID)
				assert.ErrorContains(t, err, "removed ca.pem from its Secret "+objectName(spec)+"; the next plan change or upgrade")
				err = l.ChangeAdminPassword(t.Context(), spec.ID, spec.AdminPassword, func(context.Context) error { return nil })
				assert.NoError(t, err)
			}
			answers(t, test.call(l, spec), launcher.Wait, test.sentence)
			files := p.filesOf(t, spec)
			assert.Equal(t, all, namesOf(files))
			pair, err := tls.X509KeyPair(files["server.pem"], files["server-key.pem"])
			require.NoError(t, err)
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(files["ca.pem"])
			_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: objectName(spec) + "." + p.Name + ".svc"})
			assert.NoError(t, err)
		})
	}
}

// A broker that starts records no server whose CA somebody has removed: its clients would do without TLS.
func TestCARemoved(t *testing.T) {
	t.Parallel()
	p := newObjects(t)
	l := p.open(t)
	whole, broken := p.readyServer(t, l), p.readyServer(t, l)
	if objectName(whole) < objectName(broken) { // the broken one is listed first
		whole, broken = broken, whole
	}
	p.merge(t, p.secretOf(broken), map[string]any{"data": map[string]any{"ca.pem": nil}})
	recorded := make(chan string, 2)
	p.cfg.Supervise = true
	p.cfg.RecordEndpoint = func(_ context.Context, id string, _ launcher.Endpoint) error {
		recorded <- id
		return nil
	}
	p.open(t)
	assert.Equal(t, whole.ID, testdrive.Receive(t, recorded, "an endpoint is recorded"))
}

// mysqld runs with the files that are left when one is made again. A new key has a new certificate, and clients trust the
// former one too, until mysqld has loaded the new one.
func TestFilesLeft(t *testing.T) {
	t.Parallel()
	p, l, spec := newServer(t)
	before := p.filesOf(t, spec)
	for _, test := range []struct {
		removed string
		changed []string
	}{
		{"my.cnf", nil},
		{"init.sql", nil},
		{"prepare.sh", nil},
		{"server-key.pem", []string{"ca.pem", "server-key.pem", "server.pem"}},
	} {
		p.merge(t, p.secretOf(spec), map[string]any{"data": map[string]any{test.removed: nil}})
		answers(t, launching(l, spec), launcher.Wait, "Attaching the volume")
		after := p.filesOf(t, spec)
		assert.Len(t, after, len(before), test.removed)
		maps.DeleteFunc(after, func(name string, content []byte) bool { return bytes.Equal(content, before[name]) })
		assert.Equal(t, test.changed, namesOf(after), test.removed)
	}
	assert.Contains(t, string(p.filesOf(t, spec)["ca.pem"]), string(before["ca.pem"]))
}

// The certificate of a server has the names of its Service and the address that applications outside of the cluster use.
// That of a load balancer is waited for.
func TestCertificateNames(t *testing.T) {
	t.Parallel()
	for access, outside := range map[kubernetes.Access]string{kubernetes.InCluster: "",
		kubernetes.NodePort: "nodes.example.com", kubernetes.LoadBalancer: "lb-1.example.com"} {
		t.Run(string(access), func(t *testing.T) {
			t.Parallel()
			p := newObjects(t)
			p.reachBy(access, outside)
			l, spec := p.open(t), newSpec()
			if access == kubernetes.LoadBalancer {
				answers(t, launching(l, spec), launcher.Wait, "Waiting for the load balancer's address")
				assert.Equal(t, []string{"init.sql", "initialise.sh", "my.cnf", "prepare.sh"}, namesOf(p.filesOf(t, spec)),
					"files that brokers of before expect")
				p.balance(t, spec, map[string]string{"hostname": outside})
			}
			p.begun(t, l, spec)
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
