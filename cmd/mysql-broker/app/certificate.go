package app

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/provisioner/periodic"
)

// certificateCheck is how often the certificate's files are read. Changes are detected by their content: a renewal can
// write the files in place, rename them, or change a symbolic link to a parent directory, as Kubernetes does with
// secrets.
const certificateCheck = 2 * time.Second

// keyPair is the certificate and key for new connections.
type keyPair struct {
	files  config.TLS
	log    *slog.Logger
	latest atomic.Pointer[tls.Certificate]

	checked [sha256.Size]byte // the sum of what the files contained at the last check
	failed  error             // of that check
}

func newKeyPair(files config.TLS, log *slog.Logger, r prometheus.Registerer) (*keyPair, error) {
	c := &keyPair{files: files, log: log}
	pair, err := files.Load()
	if err != nil {
		return nil, err
	}
	c.use(&pair)
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "mysql_broker_certificate_expiry_timestamp_seconds",
		Help: "When the certificate of the broker's own HTTPS expires, in seconds since 1970.",
	}, func() float64 { return float64(c.latest.Load().Leaf.NotAfter.Unix()) }))
	return c, nil
}

func (c *keyPair) use(pair *tls.Certificate) {
	c.latest.Store(pair)
	c.log.Info("HTTPS certificate", "subject", pair.Leaf.Subject.String(), "names", pair.Leaf.DNSNames,
		"expires", pair.Leaf.NotAfter)
}

// config excludes TLS 1.0 and 1.1, which are deprecated (RFC 8996).
func (c *keyPair) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.latest.Load(), nil }}
}

// follow loads changed files until ctx ends.
func (c *keyPair) follow(ctx context.Context) {
	periodic.Run(ctx, periodic.Schedule{Every: certificateCheck, Delay: certificateCheck}, &periodic.Status{
		What: "loading the HTTPS certificate and key", Meanwhile: "the last ones stay in use", Log: c.log,
		Level: slog.LevelError, EachError: true}, c.reload)
}

// reload uses the files if their content has changed. It returns an error if they are invalid, or do not match because
// one of them is not written yet.
func (c *keyPair) reload(context.Context) error {
	certificate, key, err := c.files.Read()
	if err != nil {
		return err
	}
	sum := sha256.Sum256(append(append(certificate, 0), key...))
	if sum == c.checked {
		return c.failed // to parse a key takes a millisecond
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err == nil && !slices.EqualFunc(pair.Certificate, c.latest.Load().Certificate, bytes.Equal) {
		c.use(&pair)
	}
	c.checked, c.failed = sum, err
	return err
}
