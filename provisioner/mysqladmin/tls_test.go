package mysqladmin_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/test/testdrive"
)

func TestACAIsNeverPassedOver(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		_, port, err := net.SplitHostPort(f.config.Addr)
		f.must(err)
		plain, byName := withoutTLS(t, f.config.Addr), "localhost:"+port // the certificate is for 127.0.0.1
		for _, tt := range []struct {
			what    string
			cfg     mysqladmin.Config
			allowed bool
		}{
			{"another CA", mysqladmin.Config{Addr: f.config.Addr, CA: foreignCA(t)}, false},
			{"another host name", mysqladmin.Config{Addr: byName, CA: f.config.CA}, false},
			{"a server without TLS", mysqladmin.Config{Addr: plain, CA: f.config.CA}, false},
			{"no CA to go by", mysqladmin.Config{Addr: plain}, true},
			{"the server's own name, at another address", mysqladmin.Config{Addr: byName, CA: f.config.CA,
				ServerName: "127.0.0.1"}, true},
			{"another name, at the server's address", mysqladmin.Config{Addr: f.config.Addr, CA: f.config.CA,
				ServerName: "localhost"}, false},
		} {
			tt.cfg.User, tt.cfg.Password = f.config.User, f.config.Password
			err := mysqladmin.CheckLogin(t.Context(), tt.cfg, "")
			if tt.allowed && err != nil || !tt.allowed && (err == nil || mysqladmin.Unreachable(err) || number(err) != 0) {
				t.Errorf("%s: %v", tt.what, err)
			}
		}
	})
}

// withoutTLS is the address of a proxy that hides the server's TLS from clients.
func withoutTLS(t *testing.T, addr string) string {
	t.Helper()
	proxy := testdrive.NewProxy(t, addr)
	proxy.HideTLS()
	return proxy.Addr()
}

func TestTransport(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		for addr, want := range map[string]mysqladmin.Transport{f.config.Addr: {TLS: true}, withoutTLS(t, f.config.Addr): {}} {
			cfg := f.config
			cfg.Addr, cfg.CA = addr, nil
			server, err := mysqladmin.Open(cfg)
			f.must(err)
			if got, err := server.Transport(t.Context()); err != nil || got != want {
				t.Errorf("%+v (%v), want %+v", got, err, want)
			}
			f.must(server.Close())
		}
	})
}

// foreignCA is a CA that no server has a certificate of, in PEM.
func foreignCA(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
