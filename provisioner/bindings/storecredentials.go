package bindings

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/credhub"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/leader"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

const (
	// credHubInterval is how often one broker looks for differences between CredHub and the records.
	credHubInterval = 10 * time.Second
	// credHubAge is how old a comparison of an entry may become, if there are not too many.
	credHubAge = time.Minute
	// credHubAtOnce is how many entries are handled each time.
	credHubAtOnce = 200
	// credHubKeep is how long the record of a deleted entry is kept. Then the entry is deleted again, because a broker
	// that was paused could have stored it meanwhile.
	credHubKeep = 2 * time.Minute
	// storeTime limits an attempt to store one entry, while a request waits.
	storeTime = 10 * time.Second
	// deleteTime limits an attempt to delete one, while a request waits that does not need it.
	deleteTime = time.Second
)

// chooseStore decides whether CredHub gets the credentials of a new binding, and who may read them there: the
// application, or the client of UAA that reads them for the owner of a service key. Without either, nobody could.
func (bs *Bindings) chooseStore(b *store.Binding, q BindRequest, predecessor *store.Binding) {
	if bs.credHub == nil {
		return
	}
	switch {
	case q.AppGUID != "":
		b.CredHubReader = credhub.Application(q.AppGUID)
	case q.ReaderID != "":
		b.CredHubReader = credhub.UAAClient(q.ReaderID)
	case predecessor != nil:
		b.CredHubReader = predecessor.CredHubReader
	}
	if b.CredHubReader != "" {
		b.CredHubName = bs.credHub.Name(b.Account)
	}
}

// storeCredentials is the step that stores the credentials of a new binding in CredHub.
func (bs *Bindings) storeCredentials(i store.Instance, b store.Binding) task.Step {
	return task.Step{Name: "store credentials", Progress: "Storing the credentials", Timeout: storeTime,
		Do: func(ctx context.Context, run *task.Run) error {
			if bs.credHub == nil {
				return task.RequeueElsewhere(errNoCredHub)
			}
			if err := bs.storeEntry(ctx, i, b, nil); err != nil {
				return engine.Fail(run.Task, engine.CredHubFailed, err)
			}
			return nil
		}}
}

var errNoCredHub = errors.New("CREDHUB_URL is not set where this runs, and CredHub has the credentials")

// storeChanged is the step that stores the changed credentials of a binding in CredHub. If CredHub does not answer, it
// leaves them to SyncCredHub: the account has changed already.
func (bs *Bindings) storeChanged(i store.Instance, b store.Binding) task.Step {
	return task.Step{Name: "store credentials", Progress: "Storing the credentials", Timeout: storeTime,
		Do: func(ctx context.Context, run *task.Run) error {
			stored, err := bs.afterChange(ctx, run, b, storeTime/2, func(ctx context.Context) error {
				return bs.storeEntry(ctx, i, b, nil)
			})
			if stored || err != nil {
				return err
			}
			return run.Advise("CredHub gets the new password when it answers again. Restart the application after that.")
		}}
}

// afterChange brings CredHub up to date after the account of a binding has changed. It reports whether that was done;
// otherwise SyncCredHub does it later.
func (bs *Bindings) afterChange(ctx context.Context, run *task.Run, b store.Binding, limit time.Duration,
	do func(context.Context) error) (done bool, err error) {
	err = errNoCredHub
	if bs.credHub != nil {
		within, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		err = do(within)
	}
	if ctx.Err() != nil || run.Alive() != nil {
		return false, errors.Join(err, ctx.Err(), run.Alive())
	}
	if err != nil {
		bs.Log.Warn("CredHub is not up to date after a change of a binding; trying again later",
			"instance_id", b.InstanceID, "binding_id", b.ID, "error", err)
	}
	return err == nil, nil
}

// storeEntry stores the credentials of a binding unless the hash says that CredHub has them.
func (bs *Bindings) storeEntry(ctx context.Context, i store.Instance, b store.Binding, has []byte) error {
	c, err := bs.credentials(ctx, i, b)
	if err != nil {
		return err
	}
	document := bs.document(c)
	sum, err := credhub.Sum(document)
	if err != nil {
		return fmt.Errorf("encode the credentials: %w", err)
	}
	if bytes.Equal(sum, has) {
		return nil
	}
	attempt, err := bs.Store.CredHub.BeginStore(ctx, b.CredHubName)
	if err != nil {
		return fmt.Errorf("record that CredHub is to store it: %w", err)
	}
	if err := bs.credHub.Store(ctx, b.CredHubName, document, b.CredHubReader); err != nil {
		return err
	}
	if err := bs.Store.CredHub.SetStored(ctx, b.CredHubName, attempt, sum); err != nil {
		return fmt.Errorf("record what CredHub has: %w", err)
	}
	return nil
}

// deleteCredentials is the step that deletes the credentials of a binding from CredHub. If CredHub does not answer, it
// leaves them to SyncCredHub: the account has ended, so nobody can use them.
func (bs *Bindings) deleteCredentials(b store.Binding) task.Step {
	return task.Step{Name: "delete credentials", Progress: "Deleting the credentials", Timeout: storeTime,
		Do: func(ctx context.Context, run *task.Run) error {
			_, err := bs.afterChange(ctx, run, b, deleteTime, func(within context.Context) error {
				done, err := bs.credHub.Delete(within, b.CredHubName, b.CredHubReader)
				if done && err == nil {
					err = bs.Store.CredHub.SetDeleted(ctx, b.CredHubName)
				}
				return err
			})
			return err
		}}
}

// SyncCredHub deletes from CredHub the credentials of bindings that are gone, and stores those that have changed, for
// example because an instance was moved, until ctx ends. One broker does that for all.
func (bs *Bindings) SyncCredHub(ctx context.Context) {
	leader.Work{Store: bs.Store, Log: bs.Log, Lease: "credhub",
		What: "bringing CredHub up to date", Every: credHubInterval,
		Do: bs.syncCredHub}.Run(ctx)
}

func (bs *Bindings) syncCredHub(ctx context.Context) error {
	if hold, err := bs.Store.Recovery.Hold(ctx); err != nil || hold != nil {
		return err // the bindings may have changed since
	}
	failed := []error{bs.deleteEnded(ctx)} // a broker that may not delete still stores what a move has changed
	unchecked, err := bs.Store.CredHub.Unchecked(ctx, credHubAge, credHubAtOnce)
	if err != nil {
		failed = append(failed, fmt.Errorf("list what CredHub should have: %w", err))
	}
	for _, e := range unchecked {
		err := bs.checkEntry(ctx, e)
		failed = append(failed, err)
		if _, away := errors.AsType[*credhub.Error](err); away || ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failed...)
}

// deleteEnded deletes from CredHub the credentials of bindings that are gone. It keeps their records unless CredHub has
// deleted them, or lets the broker delete others under the same path: otherwise they may be there. After an error, it
// leaves the other credentials under that path to the next round.
func (bs *Bindings) deleteEnded(ctx context.Context) (all error) {
	ended, err := bs.Store.CredHub.Ended(ctx, credHubKeep, credHubAtOnce)
	if err != nil {
		return fmt.Errorf("list what CredHub should not have any more: %w", err)
	}
	checked := map[string]error{} // by path
	for _, e := range ended {
		path := credhub.PathOf(e.Name)
		if checked[path] != nil {
			continue
		}
		done, err := bs.credHub.Delete(ctx, e.Name, e.Reader)
		if _, known := checked[path]; err == nil && !done && !e.Deleted && !known {
			err = bs.credHub.CheckDeleting(ctx, path)
			checked[path] = err
		}
		if err != nil {
			checked[path], all = err, errors.Join(all, err)
			continue
		}
		if err := bs.Store.CredHub.Forget(ctx, e.Name, credHubKeep); err != nil {
			return errors.Join(all, fmt.Errorf("forget what CredHub had: %w", err))
		}
	}
	return all
}

// checkEntry stores the credentials of a binding if they are not what CredHub has.
func (bs *Bindings) checkEntry(ctx context.Context, e store.CredHubEntry) error {
	i, err := bs.Store.Instances.Get(ctx, e.InstanceID)
	var b store.Binding
	if err == nil {
		b, err = bs.Store.Bindings.Get(ctx, e.InstanceID, e.BindingID)
	}
	if errors.Is(err, store.ErrNotFound) || err == nil && (b.CredHubName != e.Name || b.State != store.Ready) {
		return nil // it has ended meanwhile
	}
	if err == nil {
		err = bs.storeEntry(ctx, i, b, e.Stored)
	}
	if err != nil {
		return fmt.Errorf("store the credentials of binding %q of instance %q: %w", e.BindingID, e.InstanceID, err)
	}
	return nil
}
