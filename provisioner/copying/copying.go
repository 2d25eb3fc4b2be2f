// Package copying copies the data of instances: for a clone, and for a move to another server. It runs the SQL of the
// parameter bootstrap. It also has what restores share with copies: who may read, the accounts that read and write, the
// freeze of an instance, and turns, since a copy keeps its servers busy.
package copying

import (
	"cmp"
	"context"
	"strings"

	"mysql-broker/provisioner/fair"
	"mysql-broker/provisioner/memory"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/steps"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// Copier copies between the servers of a fleet. Make one with New.
type Copier struct {
	*steps.Servers

	turns      *copyTurns
	memory     *memory.Budget
	bootstraps *fair.Slots
}

// New returns a copier for a process with so many task workers; 0 means the default. As many scripts of bootstrap run
// at the same time.
func New(s *steps.Servers, workers int, m *memory.Budget) *Copier {
	workers = cmp.Or(workers, task.DefaultWorkers)
	return &Copier{Servers: s, turns: newCopyTurns(workers, m), memory: m, bootstraps: fair.NewSlots(workers)}
}

// EachAccount runs fn for accounts of an instance, each under the lock of its binding, because a worker whose bind was
// cancelled may still be running.
func (c *Copier) EachAccount(ctx context.Context, run *task.Run, i store.Instance,
	accounts []store.BindingAccount, fn func(ctx context.Context, s *mysqladmin.Session, account string) error) error {
	for _, a := range accounts {
		err := c.InSession(i, steps.BindingLock(i.ID, a.BindingID),
			func(ctx context.Context, _ *task.Run, s *mysqladmin.Session) error { return fn(ctx, s, a.Account) })(ctx, run)
		if err != nil {
			return err
		}
	}
	return nil
}

// LeavingOutBroken runs a copy or a restore that leaves out the programs that were broken in the source, as they cannot
// be created. The task names them at its end.
func LeavingOutBroken(run *task.Run, before string, fill func(leftOut func(string, bool, error) bool) error) error {
	var all []string
	err := fill(func(program string, broken bool, _ error) bool {
		if broken {
			all = append(all, program)
		}
		return broken
	})
	if err != nil {
		return err
	}
	sentence := before
	if len(all) > 0 {
		sentence += " Left out, because it uses something that was not there when the data was read, or is damaged: " +
			strings.Join(all, ", ") + "."
	}
	return run.Advise(strings.TrimSpace(sentence))
}
