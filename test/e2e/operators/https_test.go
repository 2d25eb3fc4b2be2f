package operators

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mysql-broker/test/limits"
	"mysql-broker/test/testdrive"
)

// The certificate's files are as Kubernetes mounts a secret: tls.crt and tls.key are links through ..data, and a
// renewal changes that link.
func TestHTTPS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writePair(t, filepath.Join(dir, "v1"), 1)
	writePair(t, filepath.Join(dir, "v2"), 2)
	link(t, "v1", filepath.Join(dir, "..data"))
	link(t, "..data/tls.crt", filepath.Join(dir, "tls.crt"))
	link(t, "..data/tls.key", filepath.Join(dir, "tls.key"))
	env := testdrive.AnyEnvironment(t)
	env["TLS_CERTIFICATE"], env["TLS_KEY"] = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	b := secureBroker{testdrive.Start(t, env), t}

	old := b.connect(1)
	b.expectCatalog(old)
	b.expectExpiry(1)
	b.expectNothingOlder()
	b.expectClient(filepath.Join(dir, "v1", "tls.crt"))

	link(t, "v2", filepath.Join(dir, "..data"))
	b.awaitCertificate(2)
	b.expectCatalog(old)
	b.expectExpiry(2)

	// A pair of which only the key is new does no harm.
	certificate, key := newPair(t, 3)
	replace(t, filepath.Join(dir, "v2", "tls.key"), key)
	b.AwaitLog(t, "loading the HTTPS certificate and key failed")
	b.connect(2)
	replace(t, filepath.Join(dir, "v2", "tls.crt"), certificate)
	b.awaitCertificate(3)
	b.expectCatalog(old)
}

// secureBroker is a broker that serves HTTPS, with certificates that differ in their serial numbers.
type secureBroker struct {
	*testdrive.Broker
	t *testing.T
}

func (b secureBroker) address() string { return strings.TrimPrefix(b.URL, "http://") }

// dial verifies nothing. It returns the certificate's serial number; expectClient checks trust.
func (b secureBroker) dial() (conn *tls.Conn, serial int64) {
	b.t.Helper()
	conn, err := tls.Dial("tcp", b.address(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { conn.Close() })
	return conn, conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

func (b secureBroker) connect(want int64) *tls.Conn {
	b.t.Helper()
	conn, serial := b.dial()
	if serial != want {
		b.t.Fatalf("certificate %d instead of %d", serial, want)
	}
	return conn
}

func (b secureBroker) awaitCertificate(want int64) {
	b.t.Helper()
	testdrive.Eventually(b.t, limits.Stuck, fmt.Sprintf("certificate %d", want), func() bool {
		conn, serial := b.dial()
		conn.Close()
		return serial == want
	})
}

func (b secureBroker) get(conn net.Conn, path string) (status int, body string) {
	b.t.Helper()
	q, err := http.NewRequest("GET", "https://broker"+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	q.SetBasicAuth(b.Username, b.Password)
	q.Header.Set("X-Broker-Api-Version", "2.17")
	if err := q.Write(conn); err != nil {
		b.t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), q)
	if err != nil {
		b.t.Fatal(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer.StatusCode, string(raw)
}

func (b secureBroker) expectCatalog(conn *tls.Conn) {
	b.t.Helper()
	if status, body := b.get(conn, "/v2/catalog"); status != http.StatusOK || !strings.Contains(body, "shared-small") {
		b.t.Errorf("catalog: %d %s", status, body)
	}
}

func (b secureBroker) expectExpiry(serial int64) {
	b.t.Helper()
	conn, _ := b.dial()
	_, figures := b.get(conn, "/metrics")
	series := fmt.Sprintf("\nmysql_broker_certificate_expiry_timestamp_seconds %v\n", float64(expiry(serial).Unix()))
	if !strings.Contains(figures, series) {
		b.t.Errorf("no %q in the metrics", series)
	}
	b.AwaitLog(b.t, `"expires":"`+expiry(serial).Format(time.RFC3339))
}

// expectNothingOlder checks that neither plain HTTP nor a deprecated version of TLS is served.
func (b secureBroker) expectNothingOlder() {
	b.t.Helper()
	conn, err := net.Dial("tcp", b.address())
	if err != nil {
		b.t.Fatal(err)
	}
	defer conn.Close()
	status, body := b.get(conn, "/v2/catalog")
	if status != http.StatusBadRequest || !strings.Contains(body, "HTTP request to an HTTPS server") {
		b.t.Errorf("HTTP in clear: %d %s", status, body)
	}
	for version, served := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false,
		tls.VersionTLS12: true, tls.VersionTLS13: true} {
		conn, err := tls.Dial("tcp", b.address(), &tls.Config{InsecureSkipVerify: true, MinVersion: version,
			MaxVersion: version})
		if served != (err == nil) {
			b.t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		if err == nil {
			conn.Close()
		}
	}
}

// expectClient checks that the client connects to the broker only if it has the CA to trust.
func (b secureBroker) expectClient(certificate string) {
	b.t.Helper()
	env := map[string]string{"BROKER_URL": "https://" + b.address(), "BROKER_USERNAME": b.Username,
		"BROKER_PASSWORD": b.Password, "MYSQL_BROKER_CLIENT_STATE": filepath.Join(b.t.TempDir(), "client.json")}
	if out := testdrive.Run(b.t, env, "client", "catalog").Expect(b.t, 1); !strings.Contains(out.Stderr, "x509") {
		b.t.Errorf("the client does not say that the certificate is not trusted: %s", out.Stderr)
	}
	env["SSL_CERT_FILE"] = certificate
	if out := testdrive.Run(b.t, env, "client", "catalog").Expect(b.t, 0); !strings.Contains(out.Stdout, "shared-small") {
		b.t.Errorf("the client shows no catalog: %s", out.Stdout)
	}
	env["BROKER_URL"] = b.URL
	if out := testdrive.Run(b.t, env, "client", "catalog").Expect(b.t, 1); !strings.Contains(out.Stderr, "HTTPS") {
		b.t.Errorf("the client does not say that the broker serves HTTPS: %s", out.Stderr)
	}
}

func expiry(serial int64) time.Time { return time.Date(2100, 1, int(serial), 0, 0, 0, 0, time.UTC) }

// newPair makes a certificate for 127.0.0.1, signed by itself, and its key.
func newPair(t *testing.T, serial int64) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: expiry(serial), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

func writePair(t *testing.T, dir string, serial int64) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	certificate, key := newPair(t, serial)
	replace(t, filepath.Join(dir, "tls.crt"), certificate)
	replace(t, filepath.Join(dir, "tls.key"), key)
}

// replace puts a new file in an old one's place.
func replace(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// link puts a symbolic link in an old one's place.
func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}
