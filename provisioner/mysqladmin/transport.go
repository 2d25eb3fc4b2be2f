package mysqladmin

import "context"

// Transport is how clients can use TLS with a server.
type Transport struct {
	TLS     bool // it is offered
	TLSOnly bool // no application can log in without it
}

// Transport asks the server whether it offers and requires TLS. TLSOnly is also true for a MySQL without the RSA keys
// by which clients without TLS encrypt passwords.
// https://dev.mysql.com/doc/refman/8.4/en/using-encrypted-connections.html#mandatory-encrypted-connections
// https://dev.mysql.com/doc/refman/8.4/en/caching-sha2-pluggable-authentication.html
func (s *Server) Transport(ctx context.Context) (Transport, error) {
	var t Transport
	version, err := s.status(ctx, "SESSION", "Ssl_version") // of a connection that uses TLS if the server offers it
	if err == nil {
		err = s.reads.QueryRowContext(ctx, "SELECT @@GLOBAL.require_secure_transport").Scan(&t.TLSOnly)
	}
	var flavour Flavour
	if err == nil {
		flavour, err = s.Flavour(ctx)
	}
	key := "not needed"
	if err == nil && flavour.Name == MySQL {
		key, err = s.status(ctx, "GLOBAL", "Caching_sha2_password_rsa_public_key")
	}
	t.TLS, t.TLSOnly = version != "", t.TLSOnly || key == ""
	return t, s.explain("read the TLS settings", err)
}

func (s *Server) status(ctx context.Context, scope, name string) (value string, err error) {
	err = s.reads.QueryRowContext(ctx, "SHOW "+scope+" STATUS LIKE '"+name+"'").Scan(&name, &value)
	return value, err
}
