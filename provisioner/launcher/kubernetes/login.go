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

// loginTime keeps a server that accepts connections but does not answer from holding up a launch.
const loginTime = 5 * time.Second

func adminLogin(s *server, spec launcher.Spec) mysqladmin.Config {
	e := s.endpoint()
	return mysqladmin.Config{Name: s.id, Addr: e.AdminAddress(), ServerName: e.Host, User: spec.AdminUser,
		Password: spec.AdminPassword, CA: e.CACertificate, MaxConns: 1}
}

// login proves that the administrator can log in. It returns NotYet while nothing answers.
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
