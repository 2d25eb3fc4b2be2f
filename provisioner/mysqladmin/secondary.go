package mysqladmin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// errLags is the error of a node that does not have everything yet.
var errLags = errors.New("the node lags behind")

// OpenSecondary returns a node of a cluster of Group Replication that is not the primary, as a single server, so that
// much can be read without slowing the primary down. It has everything that was committed before the call. Accounts log
// in there that were created with Secondary. It returns nil and the reason if there is none. The caller closes it.
func (s *Server) OpenSecondary(ctx context.Context) (*Server, error) {
	if s.nodes == nil {
		return nil, errors.New("it is no cluster")
	}
	here, err := s.clusterHere(ctx)
	if err != nil {
		return nil, s.explain("read the members of the cluster", err)
	}
	var executed string
	if err := s.reads.QueryRowContext(ctx, "SELECT @@GLOBAL.gtid_executed").Scan(&executed); err != nil {
		return nil, s.explain("read what the node has executed", err)
	}
	primary, _ := s.nodes.state()
	errs := []error{errors.New("no other node is a member")}
	for n, one := range s.nodes.all {
		if n == primary {
			continue
		}
		isMember, err := one.asMember(ctx, here.group, func(conn *sql.Conn) error {
			var late int
			err := conn.QueryRowContext(ctx, "SELECT WAIT_FOR_EXECUTED_GTID_SET(?, ?)", executed,
				catchUpTime.Seconds()).Scan(&late)
			if err == nil && late != 0 {
				err = errLags
			}
			return err
		})
		if isMember && err == nil {
			cfg := s.config
			cfg.Addr, cfg.Nodes = one.addr, nil
			return Open(cfg)
		}
		errs = append(errs, fmt.Errorf("node %s: %w", one.addr, err))
	}
	return nil, s.explain("choose a secondary to read from", errors.Join(errs...))
}
