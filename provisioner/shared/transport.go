package shared

import "context"

// WithoutTLS tells whether the server is known to offer no TLS.
func (s *Server) WithoutTLS() bool {
	t := s.transport.Load()
	return t != nil && !t.TLS
}

// TLSOnly tells whether the server is known to let nobody log in without TLS.
func (s *Server) TLSOnly() bool {
	t := s.transport.Load()
	return t != nil && t.TLSOnly
}

// checkTransport finds out what TLSOnly and WithoutTLS tell, unless the server does not answer.
func (s *Server) checkTransport(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	transport, err := s.Transport(ctx)
	if err == nil {
		s.transport.Store(&transport)
	}
	return err
}
