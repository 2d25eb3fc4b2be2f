package app

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mysql-broker/cmd/mysql-broker/config"
)

// certificateCheck is how often the certificate's files are read. They are compared by what they hold: renewal may
// write them in place, rename them, or turn a symbolic link of some directory above, as Kubernetes does with secrets.
const certificateCheck = 2 * time.Second

// certificate is the pair of certificate and key that new connections get.
type certificate struct {
	files  config.TLS
	log    *slog.Logger
	latest atomic.Pointer[tls.Certificate]
	fault  string // of the files as they are, "" if they are in use
}

func newCertificate(files config.TLS, log *slog.Logger, r prometheus.Registerer) (*certificate, error) {
	c := &certificate{files: files, log: log}
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

func (c *certificate) use(pair *tls.Certificate) {
	c.latest.Store(pair)
	c.log.Info("HTTPS certificate", "subject", pair.Leaf.Subject.String(), "names", pair.Leaf.DNSNames,
		"expires", pair.Leaf.NotAfter)
}

// config leaves out TLS 1.0 and 1.1, which are deprecated (RFC 8996).
func (c *certificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.latest.Load(), nil }}
}

// follow takes up new files until ctx ends.
func (c *certificate) follow(ctx context.Context) {
	tick := time.NewTicker(certificateCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			c.reload()
		}
	}
}

// reload takes up what the files hold if that is new. Files that do not work, or do not belong together because one of
// them is not written yet, are left alone and reported once.
func (c *certificate) reload() {
	pair, err := c.files.Load()
	if err != nil {
		if c.fault != err.Error() {
			c.fault = err.Error()
			c.log.Error("the HTTPS certificate and key cannot be used as they are now; the last ones that could stay",
				"error", err)
		}
		return
	}
	c.fault = ""
	if !slices.EqualFunc(pair.Certificate, c.latest.Load().Certificate, bytes.Equal) {
		c.use(&pair)
	}
}
