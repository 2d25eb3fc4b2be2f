package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"mysql-broker/cmd/mysql-broker/cli"
	"mysql-broker/provisioner"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

func tasksCommand() *cobra.Command {
	var q store.TaskQuery
	var token string
	command := &cobra.Command{
		Use:   "tasks [TASK]",
		Short: "List operations; show, retry or cancel one",
		Long: `List the recorded tasks, the newest first, or show one. Each operation of a platform is a task, which the
platform knows by the same name. Brokers also record tasks on a schedule, which have no instance. Tasks are deleted 30
days after their end.

A task is "in progress", "succeeded" or "failed". While it is in progress, a broker runs it or it waits for its next
attempt. In the phase "cleanup" its changes are undone, before the task fails. Its description is the text for users,
its last error the text for operators.

` + cli.JSONHelp + `
A task has task, instance_id, binding_id, kind, plan,
plan_id, state, phase, step (the last completed one), attempts (that failed in the current step), worker (whether a
broker runs it), retry_at (if it waits), description, last_error, created_at and finished_at.`,
		Example: `  mysql-broker tasks --state in-progress
  mysql-broker tasks --state failed --kind unbind --since 2d
  mysql-broker tasks task_4711
  mysql-broker tasks retry task_4711`,
	}
	command.AddCommand(retryCommand(), cancelCommand())
	l := list[taskDocument]{filters: filtersOf(command, "tasks"), arguments: []*string{&token},
		rows: func(c *console, ctx context.Context) iter.Seq2[taskDocument, error] { return c.tasks(ctx, q) },
		one: func(c *console, ctx context.Context, out io.Writer, asJSON bool) error {
			return c.showTask(ctx, out, token, asJSON)
		}}
	l.plan(&q.PlanIDs)
	l.choice(&q.State, "state", "in this state", store.InProgress, store.Succeeded, store.Failed)
	l.choice(&q.Kind, "kind", "of this kind", slices.Sorted(maps.Keys(provisioner.TaskKinds()))...)
	l.instance(&q.InstanceID, "of this instance and its bindings, deleted or not")
	l.since(&q.Since)
	return l.command(command)
}

func (c *console) tasks(ctx context.Context, q store.TaskQuery) iter.Seq2[taskDocument, error] {
	return rowsOf(ctx, q, c.store.Tasks.Each, c.documents.task)
}

func retryCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "retry TASK",
		Short: "Retry a waiting task or a failed deletion at once",
		Long: `Retry a task, on any running broker:

  in progress, waiting   starts the next attempt now, and resets the count of attempts
  in progress, running   does nothing
  failed deletion        starts the deletion again as a new task, and prints its name. The platform has read that the
                         old one failed, and can delete again at any time: it then reads about the new one, or that
                         there is nothing to delete.
  failed provision       works only if its database or server was kept, because it held data. A new task, whose name is
                         printed, makes it a working service instance.
  scheduled, ended       does the work again now, as a new task, and prints its name: remove-old-tasks, daily
                         otherwise; purge-retained, verify-backups and purge-backups, hourly otherwise; or
                         remove-former-places and back-up-due, every ten minutes otherwise

Other failed tasks were undone, and the platform has read that. They cannot be retried, because the platform would not
know about the result. It has to request them again.`,
		Example: `  mysql-broker tasks retry task_4711
  mysql-broker tasks --state failed --kind deprovision --json | jq -r '.[].task' |
    xargs -n 1 mysql-broker tasks retry`,
		Args: cli.Exactly(1),
		RunE: onTask(provisioner.RetryTask, func(asked, now store.Task) string {
			switch {
			case now.ID != asked.ID:
				return fmt.Sprintf("%s retries %s.", task.Token(now.ID), task.Token(asked.ID))
			case now.Leased:
				return task.Token(now.ID) + " is running."
			}
			return task.Token(now.ID) + " is retried now."
		}),
	}
	return cli.Describe(command, `  0    the task is running or will run now
  1    it cannot be retried, there is no such task, or PostgreSQL cannot be reached; standard error says which
`+cli.ExitConfiguration, cli.RecordedEnvironment)
}

func cancelCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "cancel TASK",
		Short: "Cancel and undo a provision, an update, a bind, a backup or a restore",
		Long: `Cancel a provision, an update, a bind, a backup or a restore that is in progress. As after too many failures,
its changes are undone, and then it fails. Until then platforms read "in progress", with a sentence that says that an
operator cancelled it; a request that waits for the task gets a 503 with that sentence. A broker that runs the task
stops by itself, and the cleanup begins within 10 seconds. The instance or binding can be deleted meanwhile.

A deletion cannot be undone, and so cannot be cancelled.`,
		Example: `  mysql-broker tasks cancel task_4711`,
		Args:    cli.Exactly(1),
		RunE: onTask(provisioner.CancelTask, func(_, t store.Task) string {
			return fmt.Sprintf("%s is being undone, and will fail; `mysql-broker tasks %[1]s` shows its progress.",
				task.Token(t.ID))
		}),
	}
	return cli.Describe(command, `  0    the task is being undone
  1    it has ended, cannot be undone or does not exist, or PostgreSQL cannot be reached; standard error says which
`+cli.ExitConfiguration, cli.RecordedEnvironment)
}

// begins returns the RunE of a command that records a task and prints a sentence with the task's name as its operand.
func begins(with func(*cobra.Command, func(context.Context, *console) error) error, sentence string,
	begin func(context.Context, *console, []string) (store.Task, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return with(cmd, func(ctx context.Context, c *console) error {
			t, err := begin(ctx, c, args)
			if err == nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), sentence+"\n", task.Token(t.ID))
			}
			return err
		})
	}
}

// await returns a task once it has ended.
func (c *console) await(ctx context.Context, id int64) (store.Task, error) {
	t, err := c.store.Tasks.WaitEnd(ctx, id)
	if err != nil {
		err = fmt.Errorf("wait for %s: %w", task.Token(id), err)
	}
	return t, err
}

// runNow changes what a scheduled task is to do, and records one. During a hold, it returns store.ErrHeld before it
// changes anything.
func (c *console) runNow(ctx context.Context, kind string, change func() error) (t store.Task, err error) {
	if err := c.store.Recovery.Held(ctx); err != nil {
		return t, err
	}
	if err := change(); err != nil {
		return t, err
	}
	return task.RunNow(ctx, c.store, kind, provisioner.TaskKinds()[kind])
}

// onTask returns the RunE of a command that changes a task and prints a sentence about its old and new state.
func onTask(do func(context.Context, *store.Store, int64) (store.Task, error),
	tell func(asked, now store.Task) string) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		id, err := taskID(args[0])
		if err != nil {
			return err
		}
		return withConsole(cmd, func(ctx context.Context, c *console) error {
			if err := c.auditTask(ctx, cmd.Name(), id); err != nil {
				return err
			}
			now, err := do(ctx, c.store, id)
			if errors.Is(err, store.ErrNotFound) {
				return fmt.Errorf(noTask, task.Token(id))
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), tell(store.Task{ID: id}, now))
			return err
		})
	}
}

// auditTask records what an operator is about to do with a task, if there is one.
func (c *console) auditTask(ctx context.Context, action string, id int64) error {
	t, err := c.store.Tasks.Get(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err == nil {
		err = c.store.Audit.Record(ctx, action, t.InstanceID, t.BindingID, task.Token(id))
	}
	return err
}

func taskID(token string) (int64, error) {
	id, ok := task.ParseToken(token)
	if !ok {
		return 0, fmt.Errorf("%q is not the name of a task, such as task_4711", token)
	}
	return id, nil
}

const noTask = "there is no %s; tasks are forgotten 30 days after they ended"

// taskDocument is a task in the output of --json.
type taskDocument struct {
	Task string `json:"task"`
	Plan string `json:"plan"`
	store.ListedTask
	RetryAt *time.Time `json:"retry_at,omitempty"`
}

func (ds documents) task(t store.ListedTask) taskDocument {
	d := taskDocument{Task: task.Token(t.ID), Plan: ds.plan(t.PlanID), ListedTask: t}
	if t.State == store.InProgress && !t.Leased {
		d.RetryAt = &t.RunAt
	}
	return d
}

// message is the text for a list: the description for users or, while the task waits after a failure, the last error.
func (d taskDocument) message() string {
	if d.RetryAt != nil && d.Attempt > 0 {
		return fmt.Sprintf("waits after attempts that failed: %d; %s", d.Attempt, d.LastError)
	}
	return d.Description
}

func (d taskDocument) cells() []cell {
	return []cell{{"task", d.Task}, {"kind", d.Kind}, {"state", d.State}, {"plan", d.Plan}, {"instance", d.InstanceID},
		{"binding", d.BindingID}, {"age", since(d.CreatedAt)}, {"description", d.message()}}
}

func (c *console) showTask(ctx context.Context, out io.Writer, token string, asJSON bool) error {
	id, err := taskID(token)
	if err != nil {
		return err
	}
	d, err := first(c.tasks(ctx, store.TaskQuery{ID: id}), noTask, task.Token(id))
	if err != nil {
		return err
	}
	fields := []cell{{"task", d.Task}, {"kind", d.Kind}, {"plan", d.Plan}, {"instance", d.InstanceID},
		{"binding", d.BindingID}, {"state", d.State}, {"created", at(d.CreatedAt)}}
	if d.State == store.InProgress {
		fields = append(fields, cell{"phase", d.Phase}, cell{"last step done", d.Step},
			cell{"failed attempts", fmt.Sprint(d.Attempt)}, cell{"a broker is at it", yesNo(d.Leased)})
	}
	took := func(end time.Time) string { return end.Sub(d.CreatedAt).Round(time.Millisecond).String() }
	return details(out, asJSON, d, append(fields, cell{"next attempt", ifSet(d.RetryAt, rfc3339)},
		cell{"ended", ifSet(d.FinishedAt, at)}, cell{"took", ifSet(d.FinishedAt, took)},
		cell{"description", d.Description}, cell{"last error", d.LastError}))
}

// latest is the number of tasks that are shown with an instance or binding.
const latest = 20

func (c *console) latestTasks(ctx context.Context, q store.TaskQuery) ([]taskDocument, error) {
	return collect(c.tasks(ctx, q), latest)
}

func printLatest(out io.Writer, tasks []taskDocument) error {
	return detailRows(out, tasks, "task", "kind", "state", "binding", "age", "description")
}
