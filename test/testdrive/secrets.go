package testdrive

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher/certificate"
)

// Secrets are what a broker must keep to itself, and what it said where none of them may be.
type Secrets struct {
	mu      sync.Mutex
	all     []string
	answers strings.Builder
	unkempt []string // descriptions of refusals that are no sentences
}

func (s *Secrets) Add(secrets ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, secret := range secrets {
		if secret != "" {
			s.all = append(s.all, secret)
		}
	}
}

// sentence is the style of all refusals: whole sentences, and names of parameters in quotes.
var sentence = regexp.MustCompile(`^[A-Z](?s:.*)[.]$`)

// heard keeps a response for check. Credentials are no secret to whom they are for.
func (s *Secrets) heard(r Response) {
	text := r.Raw
	if c, ok := r.Body["credentials"].(map[string]any); ok {
		if password, ok := c["password"].(string); ok && password != "" {
			text = strings.ReplaceAll(text, password, "(its password)")
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintln(&s.answers, r.Status, text)
	if said := r.String("description"); r.Status >= http.StatusBadRequest && said != "" && !sentence.MatchString(said) {
		s.unkempt = append(s.unkempt, said)
	}
	_ = http.Header.Write(r.Header, &s.answers) // a Builder takes everything
}

// Check fails the test for each line of a text that holds a secret in any form.
func (s *Secrets) Check(t *testing.T, where, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, secret := range s.all {
		line, found := Leak(text, secret)
		assert.False(t, found, "%s: this holds a secret: %.1000q", where, line)
	}
}

// CheckData is check for what may be large, where servers keep what they were given as it is.
func (s *Secrets) CheckData(t *testing.T, where string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, secret := range s.all {
		assert.False(t, bytes.Contains(data, []byte(secret)), "%s holds a secret", where)
	}
}

func (s *Secrets) HeardText() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answers.String()
}

// Leak finds the first line that holds a secret in one of its forms.
func Leak(text, secret string) (line string, found bool) {
	for _, form := range forms(secret) {
		if at := strings.Index(text, form); at >= 0 {
			start := strings.LastIndexByte(text[:at], '\n') + 1
			line, _, _ = strings.Cut(text[start:], "\n")
			return line, true
		}
	}
	return "", false
}

// forms are the ways in which a secret may stand in a text: as it is, escaped for URLs, JSON and SQL, in hexadecimal, as
// PostgreSQL shows bytes, and in base64, alone or after one or two other bytes, as in a header of basic authentication.
func forms(secret string) []string {
	quoted, err := json.Marshal(secret)
	if err != nil {
		panic(err) // a string always encodes
	}
	all := []string{secret, url.QueryEscape(secret), url.PathEscape(secret), strings.Trim(string(quoted), `"`),
		strings.ReplaceAll(secret, "'", "''"), hex.EncodeToString([]byte(secret))}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			text := encoding.EncodeToString([]byte(strings.Repeat("x", before) + secret))
			first := (before*8 + 5) / 6            // characters that depend on what is before
			last := (before + len(secret)) * 8 / 6 // and those that depend on what comes after
			all = append(all, text[first:last])
		}
	}
	return all
}

// NewKeyPair returns a new CA, and a key and a certificate for hosts, all in PEM.
func NewKeyPair(t testing.TB, hosts ...string) (ca string, key, leaf []byte) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	caDER, leafDER, err := certificate.New("test", private, hosts...)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	encode := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	return string(encode("CERTIFICATE", caDER)), encode("PRIVATE KEY", der), encode("CERTIFICATE", leafDER)
}

// WriteKeyPair writes ca.crt, tls.crt and tls.key for 127.0.0.1 into a directory, which it makes.
func WriteKeyPair(t testing.TB, dir string) {
	require.NoError(t, os.MkdirAll(dir, 0o700))
	ca, key, leaf := NewKeyPair(t, "127.0.0.1")
	for name, content := range map[string][]byte{"ca.crt": []byte(ca), "tls.key": key, "tls.crt": leaf} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
}
