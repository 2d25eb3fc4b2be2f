package kubernetes

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/mysqladmin"
)

// loginTime limits a login, because a server may accept connections and not respond.
const loginTime = 5 * time.Second

func adminLogin(s *server, spec launcher.Spec) mysqladmin.Config {
	e := s.endpoint()
	return mysqladmin.Config{Name: s.id, Addr: e.AdminAddress(), ServerName: e.Host, User: spec.AdminUser,
		Password: spec.AdminPassword, CA: e.CACertificate, MaxConns: 1}
}

// login checks that the administrator can log in. It returns NotYet while the server does not respond.
func (l *Launcher) login(ctx context.Context, s *server, spec launcher.Spec, p pod) error {
	limited, cancel := context.WithTimeout(ctx, loginTime)
	defer cancel()
	err := mysqladmin.CheckLogin(limited, adminLogin(s, spec), "")
	if err == nil || ctx.Err() != nil {
		return err
	}
	_, refused := errors.AsType[*mysql.MySQLError](err)
	_, unverified := errors.AsType[*tls.CertificateVerificationError](err)
	if refused || unverified {
		return fmt.Errorf("server %s: log in as its admin account: %w", s.id, err)
	}
	return launcher.NotYet(pollAfter(p.Metadata.CreationTimestamp), "Starting mysqld")
}
