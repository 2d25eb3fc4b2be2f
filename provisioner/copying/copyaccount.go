package copying

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"

	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// CopyAccount derives the name of an account from the new database's name, which is random and never used twice.
func CopyAccount(i store.Instance, what string) string {
	sum := sha256.Sum256([]byte(what + " " + i.Database))
	return mysqladmin.AccountPrefix + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:20])
}

// owner is the account that creates everything.
func (f Filling) owner() string {
	if f.moves { // the source may have an owner too
		return OwnerAt(f.Instance)
	}
	return CopyAccount(f.Instance, "owner")
}

// reader is the account that reads the source.
func (f Filling) reader() string {
	if f.moves {
		return CopyAccount(f.Instance, "moving reader")
	}
	return CopyAccount(f.Instance, "reader")
}

// RecordAccount records an account of a copy, before it is created. The error wraps store.ErrNotFound if there is no
// such instance.
func (c *Copier) RecordAccount(ctx context.Context, run *task.Run, instanceID string, a mysqladmin.Account) error {
	if err := c.Store.CopyAccounts.Record(ctx, engine.LeaseOf(run.Task), store.CopyAccount{InstanceID: instanceID,
		Account: a.Name, Role: string(a.Role)}); err != nil {
		return fmt.Errorf("record the account of a copy: %w", err)
	}
	return nil
}

// CreateAnew creates an account of a copy for one attempt. Earlier attempts lose their sessions, and cannot log in any
// more.
func CreateAnew(ctx context.Context, s *mysqladmin.Session, a mysqladmin.Account) error {
	if err := s.Accounts.Lock(ctx, a.Name); err != nil {
		return err
	}
	return s.Accounts.Create(ctx, a)
}

// EndCopyAccount ends the access of an account that has written a copy. It drops and forgets the account unless that
// defines something.
func (c *Copier) EndCopyAccount(ctx context.Context, run *task.Run, s *mysqladmin.Session, i store.Instance,
	account string) error {
	kept, err := s.Accounts.Revoke(ctx, account, i.Database)
	if err != nil || kept {
		return err
	}
	return c.Store.CopyAccounts.Forget(ctx, engine.LeaseOf(run.Task), account)
}
