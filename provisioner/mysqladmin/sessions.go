package mysqladmin

import "context"

// OpenSessions counts the sessions that each of some accounts has open on the server.
func (s *Server) OpenSessions(ctx context.Context, accounts []string) (map[string]int, error) {
	all, err := s.processList(ctx, s.reads)
	if s.nodes != nil {
		all, err = s.nodes.connections(ctx, s)
	}
	if err != nil {
		return nil, s.explain("list the sessions", err)
	}
	open := make(map[string]int, len(accounts))
	for _, account := range accounts {
		open[account] = 0
	}
	for _, c := range all {
		if n, asked := open[c.user]; asked {
			open[c.user] = n + 1
		}
	}
	return open, nil
}
