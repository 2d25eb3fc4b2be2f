package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/provisioner/launcher/certificate"
	"mysql-broker/store"
)

// authority is for launcher.Options: what is recorded. The first broker that asks makes the first one.
func (a *App) authority(ctx context.Context) (certificate.Authority, error) {
	all, signing, err := authorities(ctx, a.store)
	if err != nil {
		return certificate.Authority{}, err
	}
	return certificate.Authority{Certificate: []byte(signing.Certificate), Key: []byte(signing.Key),
		Trusted: []byte(bundle(all)), TakesOver: signing.TakesOver}, nil
}

func authorities(ctx context.Context, s *store.Store) ([]store.Authority, *store.Authority, error) {
	all, signing, err := s.Authorities.All(ctx)
	if err != nil || signing != nil {
		return all, signing, err
	}
	cert, key, err := certificate.NewAuthority()
	if err != nil {
		return nil, nil, err
	}
	if err := s.Authorities.AddFirst(ctx, string(cert), string(key)); err != nil {
		return nil, nil, err
	}
	if all, signing, err = s.Authorities.All(ctx); err == nil && signing == nil {
		err = errors.New("none of the recorded CAs of dedicated servers signs")
	}
	return all, signing, err
}

// bundle has the authority that signs, or will sign, first.
func bundle(all []store.Authority) string {
	var b strings.Builder
	for n := len(all) - 1; n >= 0; n-- {
		b.WriteString(all[n].Certificate)
	}
	return b.String()
}

// CA returns the certificates that clients of dedicated servers must trust, in PEM.
func CA(ctx context.Context, cfg config.Config) (text string, err error) {
	err = withStore(ctx, cfg, func(s *store.Store) error {
		all, _, err := authorities(ctx, s)
		text = bundle(all)
		return err
	})
	return text, err
}

// AddCA adds a new CA to those that clients trust. It does not sign yet.
func AddCA(ctx context.Context, cfg config.Config) error {
	return withStore(ctx, cfg, func(s *store.Store) error {
		if _, _, err := authorities(ctx, s); err != nil {
			return err
		}
		cert, key, err := certificate.NewAuthority()
		if err != nil {
			return err
		}
		return s.Authorities.Add(ctx, string(cert), string(key))
	})
}

// PromoteCA makes the newest CA sign the certificates of all dedicated servers.
func PromoteCA(ctx context.Context, cfg config.Config) error {
	return withStore(ctx, cfg, func(s *store.Store) error {
		if _, _, err := authorities(ctx, s); err != nil {
			return err
		}
		return s.Authorities.Promote(ctx)
	})
}

// DropOldCAs has clients trust those CAs no more that signed before the present one, and says how many. It fails if a
// server of a launcher has a certificate of theirs yet.
func DropOldCAs(ctx context.Context, cfg config.Config, log *slog.Logger) (dropped int, err error) {
	err = withStore(ctx, cfg, func(s *store.Store) error {
		all, signing, err := authorities(ctx, s)
		if err != nil {
			return err
		}
		dedicated, closeAll, err := openLaunchers(cfg.Launchers, passive(log))
		if err != nil {
			return err
		}
		defer closeAll()
		for _, old := range all {
			if old.SignsSince == nil || old.ID == signing.ID {
				continue
			}
			var users []string
			for name, l := range dedicated {
				ids, err := l.SignedBy(ctx, []byte(old.Certificate))
				if err != nil {
					return fmt.Errorf("launcher %s: which servers the CA has signed: %w", name, err)
				}
				users = append(users, ids...)
			}
			if len(users) > 0 {
				return fmt.Errorf("these servers still have a certificate of an old CA, which the broker that supervises "+
					"them renews within a minute if they run: %s", strings.Join(users, ", "))
			}
			if err := s.Authorities.Drop(ctx, old.ID); err != nil {
				return err
			}
			dropped++
		}
		return nil
	})
	return dropped, err
}
