package dedicated

import (
	"context"
	"errors"
	"fmt"

	"mysql-broker/provisioner/mysqladmin"
)

// ChangeAdminPassword gives the broker's account on the server another password and proves that it works. fence and
// alive are for mysqladmin.Server.Fence.
func (s *Servers) ChangeAdminPassword(ctx context.Context, id, current, next, fence string, alive func() error) error {
	// Its connection is closed before the next one is opened: a server at its limit lets one in beyond that.
	if err := s.changeAdminPassword(ctx, id, current, next, fence, alive); err != nil {
		return err
	}
	endpoint, err := s.Endpoint(ctx, id)
	if err != nil {
		return err
	}
	return mysqladmin.CheckLogin(ctx, login(id, endpoint, adminUser, next), "")
}

func (s *Servers) changeAdminPassword(ctx context.Context, id, current, next, fence string, alive func() error) error {
	admin, err := s.Open(ctx, id, current)
	if err != nil {
		return err
	}
	defer admin.Close()
	session, err := admin.Fence(ctx, fence, alive)
	if err != nil {
		return fmt.Errorf("take the fence on the server %s: %w", id, err)
	}
	err = session.ChangePassword(ctx, adminUser, next)
	if err := errors.Join(err, session.Close()); err != nil {
		return fmt.Errorf("change the admin password of the server %s: %w", id, err)
	}
	return nil
}
