package mysqladmin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// OpenSecondary returns a node of Group Replication that is not the primary, as a single server, so that much can be
// read without slowing applications down. It has everything that was committed before the call. Accounts log in there
// that were created with Secondary. It returns nil and the reason if there is none. The caller closes it before s.
func (s *Server) OpenSecondary(ctx context.Context) (*Server, error) {
	if s.nodes == nil {
		return nil, errors.New("it is no cluster")
	}
	here, err := s.clusterHere(ctx)
	if err != nil {
		return nil, s.explain("read the members of the cluster", err)
	}
	barrier, err := executedBarrier(ctx, s.reads)
	if err != nil {
		return nil, s.explain("choose a secondary to read from", err)
	}
	primary, _ := s.nodes.state()
	errs := []error{errors.New("no other node is a member")}
	for n, one := range s.nodes.all {
		if n == primary {
			continue
		}
		isMember, err := one.asMember(ctx, here.group, func(conn *sql.Conn) error { return barrier(ctx, conn) })
		if isMember && err == nil {
			cfg := s.config
			cfg.Addr, cfg.Nodes = one.addr, nil
			secondary, err := Open(cfg)
			if err == nil {
				secondary.cluster = s.nodes
			}
			return secondary, err
		}
		errs = append(errs, fmt.Errorf("node %s: %w", one.addr, err))
	}
	return nil, s.explain("choose a secondary to read from", errors.Join(errs...))
}
