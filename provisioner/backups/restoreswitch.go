package backups

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"mysql-broker/provisioner/copying"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/steps"
	"mysql-broker/provisioner/task"
	"mysql-broker/provisioner/transfer"
	"mysql-broker/store"
)

// beside are the databases that a restore in place has beside that of the instance: one that is filled from the backup,
// and one that keeps the tables that were there. The task remembers them before they are created.
type beside struct{ Filled, Kept string }

// moved are the tables of the instance and those of the backup, once they may have changed their databases.
type moved struct{ Old, New []string }

// Keys under which the task remembers these, and that the earlier data is being dropped.
const (
	besideKey task.Key[beside] = "beside"
	movedKey  task.Key[moved]  = "moved"
	switched  task.Key[bool]   = "switched"
)

// in is the instance with another database of its server.
func (w restoring) in(database string) store.Instance {
	i := w.instance
	i.Database = database
	return i
}

func (w restoring) underLock(ctx context.Context, run *task.Run,
	fn func(context.Context, *mysqladmin.Session) error) error {
	return w.InSession(w.instance, steps.InstanceLock(w.instance.ID),
		func(ctx context.Context, _ *task.Run, s *mysqladmin.Session) error { return fn(ctx, s) })(ctx, run)
}

// create creates the database of an owner, unless it exists, and creates the owner again.
func (w restoring) create(ctx context.Context, run *task.Run, owner mysqladmin.Account) error {
	return w.underLock(ctx, run, func(ctx context.Context, s *mysqladmin.Session) error {
		if err := s.Databases.Create(ctx, owner.Database, "", ""); err != nil {
			return err
		}
		return copying.CreateAnew(ctx, s, owner)
	})
}

// fill restores the backup into a database beside that of the instance, and compares every chunk. Applications go on
// reading and writing. Programs are created to see whether they can be, and dropped, since tables with triggers cannot
// be moved.
func (w restoring) fill(ctx context.Context, run *task.Run) error {
	m, err := w.manifest(ctx, run, w.from)
	if err != nil {
		return err
	}
	of, err := w.Plan(w.instance.PlanID)
	if err != nil {
		return err
	}
	b, found, err := besideKey.Recall(run)
	if err == nil && !found {
		name := engine.NewName(mysqladmin.DatabasePrefix)
		b = beside{name, name + "_kept"}
		err = besideKey.Save(ctx, run, b)
	}
	if err != nil {
		return err
	}
	owner := mysqladmin.Account{Name: copying.CopyAccount(w.in(b.Filled), "owner"), Password: engine.NewPassword(),
		Database: b.Filled, Role: plan.Admin, Events: of.Events}
	for _, name := range []string{b.Filled, b.Kept} {
		if w.instance.Location.Dedicated() {
			break
		}
		if err := w.Store.Backups.RecordScratch(ctx, engine.LeaseOf(run.Task), w.instance.Location.Server, name, owner.Name,
			w.instance.ID); err != nil {
			return fmt.Errorf("record the database %s: %w", name, err)
		}
	}
	if err := w.create(ctx, run, owner); err != nil {
		return err
	}
	o := w.copier.OptionsFor(ctx, run, of, "restored", engine.Percent(restoringSentence))
	o.Later = new(transfer.Events)
	o.LeftOut = func(_ string, broken bool, _ error) bool { return broken }
	f := w.filling()
	f.Instance = w.in(b.Filled)
	err = f.AsOwner(ctx, run, owner, func(ctx context.Context, to transfer.Target) error {
		if err := w.vault.Restore(ctx, m, to, o); err != nil {
			return err
		}
		return transfer.DropPrograms(ctx, to, run.Alive)
	})
	return w.explainFilling(ctx, run, m.ID, err)
}

// explainFilling says what users read about a restore that failed.
func (w restoring) explainFilling(ctx context.Context, run *task.Run, id string, err error) error {
	if mysqladmin.DiskFull(err) {
		return engine.Fail(run.Task, engine.RestoringFull, err, undoneSentence(w.lost))
	}
	return w.explainRestore(ctx, run, id, err)
}

// switchOver puts the tables of the backup in the place of those that were there, which it keeps in a database of their
// own, and creates the programs of the backup. Servers rename tables from one database into another in an instant, but
// nothing else.
func (w restoring) switchOver(ctx context.Context, run *task.Run) error {
	m, err := w.manifest(ctx, run, w.from)
	if err != nil {
		return err
	}
	schema, err := w.vault.Schema(ctx, m) // before anything changes
	if err != nil {
		return w.explainRestore(ctx, run, m.ID, err)
	}
	of, err := w.Plan(w.instance.PlanID)
	if err != nil {
		return err
	}
	b, found, err := besideKey.Recall(run)
	if err != nil || !found {
		return errors.Join(err, errors.New("it is not known where the backup was restored"))
	}
	tables, err := w.tablesToMove(ctx, run, b, len(schema.Tables))
	if err != nil {
		return err
	}
	// A replay of binary logs does not see what was written to another database.
	if err := w.Store.Logs.EndOf(ctx, w.instance.ID, "a backup was restored in place"); err != nil {
		return fmt.Errorf("end the archive of binary logs: %w", err)
	}
	dropped, _, err := foundDropped.Recall(run)
	if err != nil {
		return err
	}
	earlier := fmt.Sprintf("The earlier data is in the backup %s, which can be restored in the same way.", w.id)
	mends := w.id // what an operator restores if brokers and PostgreSQL are lost in the middle
	if dropped {
		earlier, mends = "", w.from
	}
	err = w.marked(ctx, run, mends, func() error {
		return copying.LeavingOutBroken(run, earlier, func(leftOut func(string, bool, error) bool) error {
			o := transfer.Options{Events: of.Events, LeftOut: leftOut, Alive: run.Alive}
			return w.move(ctx, run, b, o, schema, tables.Old, b.Kept, tables.New, b.Filled)
		})
	})
	return w.explainFilling(ctx, run, m.ID, err)
}

// marked runs fn, which replaces the data, and has a mark at the server that it is a mixture until it has succeeded.
func (w restoring) marked(ctx context.Context, run *task.Run, backup string, fn func() error) error {
	err := w.underLock(ctx, run, func(ctx context.Context, s *mysqladmin.Session) error {
		return s.Databases.MarkMixture(ctx, w.instance.Database, backup)
	})
	if err == nil {
		err = fn()
	}
	if err != nil {
		return err
	}
	return w.underLock(ctx, run, func(ctx context.Context, s *mysqladmin.Session) error {
		return s.Databases.EndMixture(ctx, w.instance.Database)
	})
}

// tablesToMove lists the tables of the instance and of the backup before the first is moved, and remembers them. It
// fails if the backup had more: somebody has dropped what was restored.
func (w restoring) tablesToMove(ctx context.Context, run *task.Run, b beside, restored int) (moved, error) {
	all, found, err := movedKey.Recall(run)
	if err != nil || found {
		return all, err
	}
	err = w.underLock(ctx, run, func(ctx context.Context, s *mysqladmin.Session) (err error) {
		if err = s.Databases.Create(ctx, b.Kept, "", ""); err == nil {
			all.Old, err = s.Databases.Tables(ctx, w.instance.Database)
		}
		if err == nil {
			all.New, err = s.Databases.Tables(ctx, b.Filled)
		}
		return err
	})
	if err == nil && len(all.New) < restored {
		err = engine.Fail(run.Task, engine.RestoredDropped, fmt.Errorf("the database %s has %d tables, and the backup %d",
			b.Filled, len(all.New), restored))
	}
	if err == nil {
		err = errors.Join(movedKey.Remember(run, all), dataChanged.Save(ctx, run, true))
	}
	return all, err
}

// move moves tables out of the instance's database and others into it, and makes its programs those of a schema. Tables
// that an earlier attempt has moved stay.
func (w restoring) move(ctx context.Context, run *task.Run, b beside, o transfer.Options, schema transfer.Schema,
	out []string, to string, in []string, from string) error {
	return w.asOwner(ctx, run, o.Events, func(ctx context.Context, target transfer.Target) error {
		if err := transfer.DropPrograms(ctx, target, run.Alive); err != nil {
			return err
		}
		if err := w.moveTables(ctx, run, out, to, in, from); err != nil {
			return err
		}
		return transfer.LoadPrograms(ctx, schema, target, b.Filled, o)
	})
}

func (w restoring) moveTables(ctx context.Context, run *task.Run, out []string, to string, in []string,
	from string) error {
	own := w.instance.Database
	return w.underLock(ctx, run, func(ctx context.Context, s *mysqladmin.Session) error {
		are, err := s.Databases.Tables(ctx, to)
		if err != nil {
			return err
		}
		waiting, err := s.Databases.Tables(ctx, from)
		if err != nil {
			return err
		}
		var moves []mysqladmin.TableMove
		for _, t := range out {
			if !slices.Contains(are, t) {
				moves = append(moves, mysqladmin.TableMove{Table: t, From: own, To: to})
			}
		}
		for _, t := range in {
			if slices.Contains(waiting, t) {
				moves = append(moves, mysqladmin.TableMove{Table: t, From: from, To: own})
			}
		}
		return s.Databases.MoveTables(ctx, own, moves)
	})
}

// moveBack puts the tables that were kept in their place again, and creates the programs that were there from the
// backup of the earlier data.
func (w restoring) moveBack(ctx context.Context, run *task.Run) error {
	b, _, err := besideKey.Recall(run)
	tables, _, recalling := movedKey.Recall(run)
	if err := errors.Join(err, recalling); err != nil {
		return err
	}
	if err := w.asOwner(ctx, run, true, func(ctx context.Context, to transfer.Target) error {
		if err := transfer.DropPrograms(ctx, to, run.Alive); err != nil {
			return err
		}
		return w.moveTables(ctx, run, tables.New, b.Filled, tables.Old, b.Kept)
	}); err != nil {
		return err
	}
	m, err := w.manifest(ctx, run, w.id)
	if err != nil {
		return err
	}
	schema, err := w.vault.Schema(ctx, m)
	if err != nil {
		return err
	}
	o := transfer.Options{Events: true, Alive: run.Alive, LeftOut: func(program string, _ bool, err error) bool {
		w.Log.Warn("a program was broken before a backup was restored, and could not be put back", "task",
			task.Token(run.Task.ID), "instance_id", w.instance.ID, "name", program, "error", err)
		return true
	}}
	return w.asOwner(ctx, run, true, func(ctx context.Context, to transfer.Target) error {
		return transfer.LoadPrograms(ctx, schema, to, b.Filled, o)
	})
}

// dropKept drops the earlier data. From here on, the restore is not undone.
func (w restoring) dropKept(ctx context.Context, run *task.Run) error {
	if err := switched.Save(ctx, run, true); err != nil {
		return err
	}
	return w.dropBeside(ctx, run)
}

// dropBeside drops the databases beside that of the instance. It leaves earlier data there that is neither replaced
// nor back in its place.
func (w restoring) dropBeside(ctx context.Context, run *task.Run) error {
	b, _, err := besideKey.Recall(run)
	if err != nil || b.Filled == "" {
		return err
	}
	done, _, err := switched.Recall(run)
	if err != nil {
		return err
	}
	owner := copying.CopyAccount(w.in(b.Filled), "owner")
	err = w.underLock(ctx, run, func(ctx context.Context, s *mysqladmin.Session) error {
		drop := s.Databases.DropEmpty
		if done {
			drop = s.Databases.Drop
		}
		if err := drop(ctx, b.Kept); errors.Is(err, mysqladmin.ErrHoldsData) {
			w.Log.Error("a restore in place failed, and its earlier data is in another database", "task",
				task.Token(run.Task.ID), "instance_id", w.instance.ID, "name", b.Kept)
		} else if err != nil {
			return err
		}
		return dropWithOwner(ctx, s, b.Filled, owner)
	})
	if err != nil {
		return err
	}
	return besideKey.Save(ctx, run, beside{})
}

// asOwner runs fn with connections of the account that creates the programs in the instance's database, and becomes
// their definer. The database is created unless it exists.
func (w restoring) asOwner(ctx context.Context, run *task.Run, events bool,
	fn func(context.Context, transfer.Target) error) error {
	owner := mysqladmin.Account{Name: w.owner(), Password: engine.NewPassword(), Database: w.instance.Database,
		Role: plan.Admin, Events: events}
	if err := w.copier.RecordAccount(ctx, run, w.instance.ID, owner); err != nil {
		return err
	}
	if err := w.create(ctx, run, owner); err != nil {
		return err
	}
	return w.filling().AsOwner(ctx, run, owner, fn)
}

// restoreLost restores the backup into the database that was created in place of the lost one.
func (w restoring) restoreLost(ctx context.Context, run *task.Run) error {
	m, err := w.manifest(ctx, run, w.from)
	if err != nil {
		return err
	}
	of, err := w.Plan(w.instance.PlanID)
	if err != nil {
		return err
	}
	o := w.copier.OptionsFor(ctx, run, of, "restored", engine.Percent(restoringSentence))
	o.InPlace = true
	err = w.marked(ctx, run, w.from, func() error {
		return copying.LeavingOutBroken(run, "", func(leftOut func(string, bool, error) bool) error {
			o.LeftOut = leftOut
			return w.asOwner(ctx, run, of.Events, func(ctx context.Context, to transfer.Target) error {
				return w.vault.Restore(ctx, m, to, o)
			})
		})
	})
	return w.explainFilling(ctx, run, m.ID, err)
}
