package kubernetes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/certificate"
	"mysql-broker/provisioner/launcher/kubernetes/api"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/periodic"
)

const (
	// sweepInterval is how often all servers are listed to find those whose certificate is due. They are also listed when
	// the CA changes.
	sweepInterval = time.Hour

	renewTime = 5 * time.Second // for a server to show or reload its certificate
)

// renewal keeps the certificates of all servers up to date: signed by the CA that signs, renewed before they expire,
// and with all CAs that clients are to trust. Several brokers may do so at the same time: each changes what the others
// have left in a Secret, and reloading a certificate twice does no harm.
type renewal struct {
	secrets
	cfg    Config
	status periodic.Servers

	authority certificate.Authority // as of the last sweep
	signs     *certificate.Signer
	swept     time.Time       // when all servers were listed; zero until then
	due       map[string]bool // ids of servers to look after
	recorded  bool            // the endpoints of all servers
}

func (r *renewal) run(ctx context.Context) error {
	if err := r.recordEndpoints(ctx); err != nil {
		return err
	}
	if r.cfg.Authority == nil || r.cfg.Exec == nil {
		return nil
	}
	if err := r.sweep(ctx); err != nil {
		return err
	}
	for id := range r.due {
		done, err := r.renew(ctx, id)
		if _, unreachable := errors.AsType[*url.Error](err); unreachable || ctx.Err() != nil {
			return err // so would all others be
		}
		r.status.Report(ctx, id, err)
		if done {
			delete(r.due, id)
		}
	}
	return nil
}

// recordEndpoints records, once, where all servers listen.
func (r *renewal) recordEndpoints(ctx context.Context) error {
	if r.recorded || r.cfg.RecordEndpoint == nil {
		return nil
	}
	_, err := api.List(ctx, r.api, api.Secrets, serversSelector, api.FullPage, func(found api.Secret) error {
		s := server{id: found.Metadata.Labels[serverLabel], name: found.Metadata.Name, secret: found}
		if s.readState() != nil || s.state.Phase != phaseReady || len(found.Data[caFile]) == 0 ||
			!found.Metadata.DeletionTimestamp.IsZero() {
			return nil
		}
		return r.cfg.RecordEndpoint(ctx, s.id, s.endpoint())
	})
	r.recorded = err == nil
	return err
}

// sweep reads which CA signs. If that has changed, or after sweepInterval, it lists the servers that are due.
func (r *renewal) sweep(ctx context.Context) error {
	authority, err := r.cfg.authority(ctx)
	if err != nil {
		return err
	}
	same := bytes.Equal(authority.Certificate, r.authority.Certificate) &&
		bytes.Equal(authority.Trusted, r.authority.Trusted) && authority.TakesOver == r.authority.TakesOver
	if same && time.Since(r.swept) < sweepInterval {
		return nil
	}
	signs, err := authority.Signer()
	if err != nil {
		return err
	}
	started := time.Now()
	known := map[string]bool{}
	for _, c := range signs.All {
		known[fingerprint(c.Raw)] = true
	}
	err = r.each(ctx, func(id string, m api.Metadata) {
		expires, err := time.Parse(time.RFC3339, m.Annotations[expiresAnnotation])
		switch issuer := m.Annotations[caAnnotation]; {
		case m.Annotations[certificateAnnotation] == "": // it has none yet
		case isSuspended(m): // it is listed again within sweepInterval after it is launched
		case err != nil,
			m.Annotations[certificateAnnotation] != m.Annotations[loadedAnnotation],
			signs.TakesOver && issuer != fingerprint(signs.Certificate.Raw),
			known[issuer] && time.Until(expires) < certificate.RenewBefore,
			known[issuer] && m.Annotations[trustedAnnotation] != fingerprint(signs.Trusted),
			!known[issuer]: // it also trusts its own CA, so only its Secret shows whether that is up to date
			r.due[id] = true
		}
	})
	if err != nil {
		return err
	}
	r.authority, r.signs, r.swept = authority, signs, started
	return nil
}

// renew takes the next steps for a server: it records the next CA for clients, then signs a certificate with it, and
// removes the former CA once the server has loaded that certificate. It returns true when no step is left.
func (r *renewal) renew(ctx context.Context, id string) (done bool, err error) {
	s, err := r.find(ctx, id)
	if errors.Is(err, launcher.ErrNotFound) {
		return true, nil
	}
	if err != nil || s.state.Phase != phaseReady { // its launch is still running
		return false, err
	}
	p, err := certificate.ParsePair(s.secret.Data[certFile], s.secret.Data[caFile])
	if err != nil {
		return false, fmt.Errorf("server %s: its Secret: %w", s.id, err)
	}
	issuer, next := r.signs.Due(p.Leaf)
	loaded := s.secret.Metadata.Annotations[loadedAnnotation] == fingerprint(p.Leaf.Raw)
	if next || issuer == nil || !loaded {
		// Clients need these until the server uses the next certificate. If it has not loaded the present one, its former CA
		// stays trusted too.
		trusted := certificate.Join(r.signs.Trusted, p.Own())
		if !loaded {
			trusted = certificate.Join(r.signs.Trusted, p.Trusted...)
		}
		if err := r.trust(ctx, s, trusted); err != nil {
			return false, err
		}
	}
	if next {
		if err := r.sign(ctx, s, p); err != nil {
			return false, err
		}
		loaded = false
	}
	if !loaded {
		if loaded, err = r.reload(ctx, s); err != nil || !loaded {
			return false, err
		}
	}
	wanted := r.signs.Trusted
	if issuer == nil && !next { // it keeps a CA of its own
		wanted = certificate.Join(wanted, p.Own())
	}
	return true, r.trust(ctx, s, wanted)
}

// trust sets and records the CAs that clients must trust.
func (r *renewal) trust(ctx context.Context, s *server, trusted []byte) error {
	if bytes.Equal(s.secret.Data[caFile], trusted) {
		return nil
	}
	if r.cfg.RecordEndpoint != nil {
		e := s.endpoint()
		e.CACertificate = trusted
		if err := r.cfg.RecordEndpoint(ctx, s.id, e); err != nil {
			return err
		}
	}
	return r.change(ctx, s, func(s *server) {
		s.secret.Data[caFile] = trusted
		s.secret.Metadata.Annotations[trustedAnnotation] = fingerprint(trusted)
	})
}

// sign gives a server another certificate for its key and its names.
func (r *renewal) sign(ctx context.Context, s *server, p certificate.Pair) error {
	hosts := slices.Clone(p.Leaf.DNSNames)
	for _, ip := range p.Leaf.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	leaf, err := r.signs.Sign("mysql "+s.id, p.Leaf.PublicKey, hosts...)
	if err != nil {
		return err
	}
	before := s.secret.Metadata.Annotations[certificateAnnotation]
	var failed error
	err = r.change(ctx, s, func(s *server) {
		if s.secret.Metadata.Annotations[certificateAnnotation] == before { // no other broker was faster
			failed = s.setCertificate(r.signs.Certificate.Raw, leaf)
		}
	})
	if err = errors.Join(failed, err); err != nil {
		return err
	}
	r.cfg.Logger.Info("renewed the certificate of a server", "server", s.id)
	return nil
}

// reload makes the server reload its certificate unless it already uses the new one. It returns false if the server
// still uses the former one: a node takes a minute or two to write a changed Secret to its pods.
func (r *renewal) reload(ctx context.Context, s *server) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, renewTime)
	defer cancel()
	want, e := s.secret.Metadata.Annotations[certificateAnnotation], s.endpoint()
	for reloaded := false; ; reloaded = true {
		used, err := presented(ctx, e)
		if err != nil {
			return false, fmt.Errorf("server %s: read its certificate: %w", s.id, err)
		}
		if fingerprint(used) == want {
			return true, r.change(ctx, s, func(s *server) { s.secret.Metadata.Annotations[loadedAnnotation] = want })
		}
		if reloaded {
			return false, nil
		}
		if err := r.cfg.Exec(ctx, s.id, e, mysqld.ReloadCertificate[s.state.Flavour]); err != nil {
			return false, err
		}
	}
}
