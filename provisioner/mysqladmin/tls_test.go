package mysqladmin_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"mysql-broker/provisioner/mysqladmin"
)

func TestACAIsNeverPassedOver(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		cfg := f.config
		cfg.CA = foreignCA(t)
		err := mysqladmin.CheckLogin(t.Context(), cfg, "")
		if err == nil || mysqladmin.Unreachable(err) {
			t.Errorf("login to a server that the CA does not vouch for: %v", err)
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
