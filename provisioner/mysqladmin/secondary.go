package mysqladmin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
)

// OpenSecondary returns a node of a cluster that is not the one in use, as a single server, so that much can be read
// without slowing applications down. It has everything that was committed before the call. On Group Replication,
// accounts log in there that were created with Secondary. It returns nil and the reason if there is none. The caller
// closes it before s.
func (s *Server) OpenSecondary(ctx context.Context) (*Server, error) {
	if s.nodes == nil {
		return nil, errors.New("it is no cluster")
	}
	here, err := s.clusterHere(ctx)
	if err != nil {
		return nil, s.explain("read the members of the cluster", err)
	}
	flavour, err := s.Flavour(ctx)
	if err != nil {
		return nil, err
	}
	barrier := syncWait
	if dialects[flavour.Name].cluster != galera {
		if barrier, err = executedBarrier(ctx, s.reads); err != nil {
			return nil, s.explain("choose a secondary to read from", err)
		}
	}
	primary, _ := s.nodes.state()
	errs := []error{errors.New("no other node is a member")}
	for n, one := range slices.Backward(s.nodes.all) { // applications on Galera use the first one
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
