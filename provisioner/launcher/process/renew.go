package process

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"mysql-broker/provisioner/launcher/certificate"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/launcher/process/files"
	"mysql-broker/provisioner/periodic"
)

const (
	authorityInterval = 10 * time.Second // how often Authority is called
	authorityTime     = 10 * time.Second // for that call
	renewTime         = 5 * time.Second  // for a server to reload its certificate
)

// keepCertificate keeps the certificate of a running server up to date until the context ends: signed by the authority
// that signs, renewed before it expires, and with all trusted authorities.
func (c care) keepCertificate(ctx context.Context) {
	if c.run.cfg.Authority == nil || c.run.cfg.Exec == nil {
		return
	}
	// A broker that wrote a certificate may have died before the server loaded it.
	reload, recorded := c.keys.signs.Load().TakesOver, false
	status := &periodic.Status{What: "renewing a server's certificate", Level: slog.LevelError,
		Log: c.run.cfg.Logger.With("server", c.sd.id)}
	periodic.Run(ctx, periodic.Schedule{Every: authorityInterval}, status, func(ctx context.Context) error {
		renewed, err := c.renewCertificate(ctx)
		reload, recorded = reload || renewed, recorded && !renewed
		if err == nil && !recorded {
			err = c.recordEndpoint(ctx)
			recorded = err == nil
		}
		if err == nil && reload {
			if err = c.reloadCertificate(ctx); err == nil {
				reload = false
			}
		}
		return err
	})
}

// recordEndpoint records where a server listens now.
func (c care) recordEndpoint(ctx context.Context) error {
	if c.run.cfg.RecordEndpoint == nil {
		return nil
	}
	end, err := c.run.endpointOf(c.sd)
	if err != nil {
		return err
	}
	return c.run.cfg.RecordEndpoint(ctx, c.sd.id, end)
}

func (c care) reloadCertificate(ctx context.Context) error {
	st, err := c.sd.loadState()
	if err != nil {
		return err
	}
	end, err := c.run.endpoint(c.sd, st)
	if err != nil {
		return err
	}
	// The server may still use either certificate.
	ctx, cancel := context.WithTimeout(ctx, renewTime)
	defer cancel()
	return c.run.cfg.Exec(ctx, c.sd.id, end, mysqld.ReloadCertificate[c.run.cfg.Binary.Flavour])
}

// renewCertificate writes the files that are due. If another process holds the server's lock, it does nothing until the
// next run.
func (c care) renewCertificate(ctx context.Context) (renewed bool, err error) {
	lock, err := files.TryLock(c.sd.dir)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer lock.Close()
	st, err := c.sd.loadState()
	if err != nil || st.Phase != phaseReady {
		return false, err
	}
	signs := c.keys.signs.Load()
	present, trustedNow, err := c.sd.readCertificate()
	if err != nil {
		return false, err
	}
	trusted := signs.Trusted
	issuer, due := signs.Due(present.Leaf)
	if !due && issuer == nil { // a CA of its own, or one that is no longer trusted
		own := present.Own()
		if own == nil {
			return false, errors.New("no CA that it names has signed its certificate")
		}
		trusted = certificate.Join(trusted, own)
	}
	if !bytes.Equal(trusted, trustedNow) {
		// The CA file is written first and also contains the CA that is still in use, so that a client that reads it in
		// between can verify either certificate. The next run removes it.
		if due {
			trusted = certificate.Join(trusted, present.Own())
		}
		if err := files.Replace(c.sd.caFile(), trusted, 0o644); err != nil {
			return false, err
		}
		renewed = true
	}
	if !due {
		return renewed, nil
	}
	// A client that reads the record must be able to verify the next certificate before that is in use.
	if err := c.recordEndpoint(ctx); err != nil {
		return renewed, err
	}
	hosts := certificateHosts(cmp.Or(st.Host, c.run.cfg.Host))
	leaf, err := signs.Sign(certificateName(c.sd), present.Leaf.PublicKey, hosts...)
	if err == nil {
		err = files.Replace(c.sd.certificateFile(), certificate.PEM("CERTIFICATE", leaf), 0o644)
	}
	if err != nil {
		return renewed, err
	}
	c.run.cfg.Logger.Info("renewed the certificate of a server", "server", c.sd.id)
	return true, nil
}

// readCertificate reads the certificates of a server. trusted is its CA file.
func (d serverDir) readCertificate() (p certificate.Pair, trusted []byte, err error) {
	leaf, err := os.ReadFile(d.certificateFile())
	if err == nil {
		trusted, err = os.ReadFile(d.caFile())
	}
	if err == nil {
		p, err = certificate.ParsePair(leaf, trusted)
	}
	return p, trusted, err
}

// SignedBy implements launcher.Launcher.
func (l *Launcher) SignedBy(_ context.Context, ca []byte) (ids []string, err error) {
	authority, err := certificate.Parse(ca)
	if err != nil {
		return nil, err
	}
	instances, err := l.run.place.servers()
	if err != nil {
		return nil, err
	}
	for _, sd := range instances {
		if st, err := sd.loadState(); err == nil && st.Phase == phaseSuspended {
			continue
		}
		p, _, err := sd.readCertificate()
		if errors.Is(err, os.ErrNotExist) { // it is being created or destroyed
			continue
		}
		if err != nil {
			return nil, sd.explain(err)
		}
		if certificate.Issuer(p.Leaf, authority) != nil {
			ids = append(ids, sd.id)
		}
	}
	return ids, nil
}

// load reads which CA signs.
func (k *keys) load(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, authorityTime)
	defer cancel()
	a, err := k.cfg.Authority(ctx)
	if err != nil {
		return err
	}
	s, err := a.Signer()
	if err != nil {
		return err
	}
	k.signs.Store(s)
	return nil
}

// follow reads which CA signs, periodically, until the context ends.
func (k *keys) follow(ctx context.Context) {
	periodic.Run(ctx, periodic.Schedule{Every: authorityInterval, Delay: authorityInterval},
		&periodic.Status{What: "reading which CA signs for dedicated servers", Meanwhile: "the last one does",
			Log: k.cfg.Logger}, k.load)
}
