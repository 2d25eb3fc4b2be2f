package shared

import "context"

// WithoutTLS reports whether the server is known to offer no TLS.
func (s *Server) WithoutTLS() bool {
	t := s.transport.Load()
	return t != nil && !t.TLS
}

// TLSOnly reports whether the server is known to refuse logins without TLS.
func (s *Server) TLSOnly() bool {
	t := s.transport.Load()
	return t != nil && t.TLSOnly
}

// checkTransport updates what TLSOnly and WithoutTLS report, unless the server does not respond.
func (s *Server) checkTransport(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.AnswerTime)
	defer cancel()
	transport, err := s.Setup.Transport(ctx)
	if err == nil {
		s.transport.Store(&transport)
	}
	return err
}
