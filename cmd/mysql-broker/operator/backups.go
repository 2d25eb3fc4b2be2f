package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"mysql-broker/cmd/mysql-broker/cli"
	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/provisioner/archive"
	"mysql-broker/provisioner/backup"
	"mysql-broker/provisioner/backups"
	"mysql-broker/store"
	"mysql-broker/visible"
)

func backupsCommand() *cobra.Command {
	var instance string
	command := &cobra.Command{
		Use:   "backups [INSTANCE]",
		Short: "List, take, verify, restore or import backups",
		Long: `List the backups of an instance, which may be deleted, or all, the latest first. A developer restores one with:

  cf create-service OFFERING PLAN NAME -c '{"restore_from":"BACKUP"}'
  cf update-service NAME -c '{"restore_backup":"BACKUP","confirm":"NAME"}'

` + cli.JSONHelp + `
One has backup, instance_id, name, plan, plan_id,
organization_guid, space_guid, reason (request, schedule, operator or restore), state (in progress, complete or
deleting), flavour, version, created_at, taken_at (the data is not older), keep_until, data_bytes (of the database),
bytes (in the object store), tables, rows, verified_at, verify_error (why it cannot be restored) and verify_refused (why
the settings of a shared server do not let it be verified).`,
		Example: `  mysql-broker backups
  mysql-broker backups 7d7c9bb6-4a0f-4f26-9c6d-1f4b7f3a2f10 --json
  mysql-broker backups now 7d7c9bb6-4a0f-4f26-9c6d-1f4b7f3a2f10
  mysql-broker backups verify b_4k7qv2m6x3b5n7d9f2h4
  mysql-broker backups restore b_4k7qv2m6x3b5n7d9f2h4 7d7c9bb6-4a0f-4f26-9c6d-1f4b7f3a2f10
  mysql-broker backups import`,
	}
	command.AddCommand(backUpNowCommand(), verifyBackupCommand(), restoreBackupCommand(), importBackupsCommand())
	l := list[backupDocument]{arguments: []*string{&instance},
		rows: func(c *console, ctx context.Context) iter.Seq2[backupDocument, error] {
			all, err := c.backups(ctx, instance)
			return theseOf(all, err, c.documents.backup)
		}}
	l.named(&instance)
	return l.command(command)
}

// backupDocument is a backup in the output of --json.
type backupDocument struct {
	Backup           string     `json:"backup"`
	InstanceID       string     `json:"instance_id"`
	Name             string     `json:"name,omitempty"`
	Plan             string     `json:"plan"`
	PlanID           string     `json:"plan_id"`
	OrganizationGUID string     `json:"organization_guid,omitempty"`
	SpaceGUID        string     `json:"space_guid,omitempty"`
	Reason           string     `json:"reason"`
	State            string     `json:"state"`
	Flavour          string     `json:"flavour,omitempty"`
	Version          string     `json:"version,omitempty"`
	CreatedAt        time.Time  `json:"created_at"`
	TakenAt          *time.Time `json:"taken_at"`
	KeepUntil        time.Time  `json:"keep_until"`
	DataBytes        int64      `json:"data_bytes"`
	Bytes            int64      `json:"bytes"`
	Tables           int64      `json:"tables"`
	Rows             int64      `json:"rows"`
	VerifiedAt       *time.Time `json:"verified_at"`
	VerifyError      string     `json:"verify_error,omitempty"`
	VerifyRefused    string     `json:"verify_refused,omitempty"`
}

// backups returns the backups of an instance, which may be deleted, or all for "". It is an error if there is neither a
// backup nor an instance.
func (c *console) backups(ctx context.Context, instance string) ([]store.Backup, error) {
	found, err := c.store.Backups.Of(ctx, instance)
	if err == nil && len(found) == 0 && instance != "" {
		_, err = c.store.Instances.Get(ctx, instance)
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("there is no service instance %q, nor a backup of a deleted one", instance)
	}
	return found, err
}

func (ds documents) backup(b store.Backup) backupDocument {
	return backupDocument{Backup: b.ID, InstanceID: b.InstanceID, Name: b.InstanceName, Plan: ds.plan(b.PlanID),
		PlanID: b.PlanID, OrganizationGUID: b.OrganizationGUID, SpaceGUID: b.SpaceGUID, Reason: b.Reason, State: b.State,
		Flavour: b.Flavour, Version: b.Version, CreatedAt: b.CreatedAt, TakenAt: b.TakenAt,
		KeepUntil: b.KeepUntil, DataBytes: b.DataBytes, Bytes: b.Bytes, Tables: b.Tables, Rows: b.Rows,
		VerifiedAt: b.VerifiedAt, VerifyError: b.VerifyError, VerifyRefused: b.VerifyRefused}
}

func (d backupDocument) cells() []cell {
	size, verified := "", "no"
	if d.TakenAt != nil {
		size = mebibytes(d.Bytes)
	}
	switch {
	case d.VerifyError != "":
		verified = "DAMAGED"
	case d.VerifyRefused != "":
		verified = "refused by settings"
	case d.VerifiedAt != nil:
		verified = ago(*d.VerifiedAt)
	}
	return []cell{{"backup", d.Backup}, {"instance", d.InstanceID}, {"name", d.Name}, {"plan", d.Plan}, {"state", d.State},
		{"reason", d.Reason}, {"taken", ifSet(d.TakenAt, ago)}, {"size", size}, {"verified", verified},
		{"until", rfc3339(d.KeepUntil)}, {"problem", cmp.Or(d.VerifyError, d.VerifyRefused)}}
}

// backupsEnvironment describes the environment of withBackups.
var backupsEnvironment = cli.EnvironmentOf(config.ForBackups)

// withBackups is withConsole for a console whose configuration has an object store. Without one, as brokers have the
// same configuration, nobody could run what the command records.
func withBackups(cmd *cobra.Command, fn func(context.Context, *console) error) error {
	return withConfig(cmd, config.ForBackups.Read, func(ctx context.Context, c *console) error {
		if !c.cfg.Backups.Configured() {
			return &cli.ConfigError{Err: errors.New("BACKUP_STORE is not set, and no bound service has a bucket")}
		}
		return fn(ctx, c)
	})
}

func backUpNowCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "now INSTANCE",
		Short: "Back up an instance",
		Long: `Back up an instance. A running broker does that, as a task whose name is printed. Applications are not
affected; meanwhile, the instance cannot be updated.`,
		Example: `  mysql-broker backups now 7d7c9bb6-4a0f-4f26-9c6d-1f4b7f3a2f10`,
		Args:    cli.Exactly(1),
		RunE: begins(withBackups, "%s backs it up; `mysql-broker tasks %[1]s` shows its progress.",
			func(ctx context.Context, c *console, args []string) (t store.Task, err error) {
				id, err := c.names.instance(ctx, args[0])
				if err == nil {
					t, err = backups.BackUpNow(ctx, c.store, c.plans, id)
				}
				if err != nil {
					return t, fmt.Errorf("back up instance %q: %w", args[0], err)
				}
				return t, nil
			}),
	}
	return cli.Describe(command, `  0    a broker backs it up
  1    there is no such instance, something else is in progress on it, or PostgreSQL cannot be reached
`+cli.ExitConfiguration, backupsEnvironment)
}

func verifyBackupCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "verify BACKUP…",
		Short: "Verify backups by restoring them",
		Long: `Verify backups now, instead of within the hour after they are taken, or once more. A running broker restores
each into a scratch database on a shared server, compares every chunk with the checksums of the manifest, and drops the
database, as a task whose name is printed. "mysql-broker backups" shows the results. A backup that settings of the
shared server refuse is tried again once a day, or at once by this command.`,
		Example: `  mysql-broker backups verify b_4k7qv2m6x3b5n7d9f2h4`,
		Args:    cobra.MinimumNArgs(1),
		RunE: begins(withBackups, "%s verifies all backups that are not verified, or the task that follows it.",
			func(ctx context.Context, c *console, ids []string) (store.Task, error) {
				return c.runNow(ctx, backups.VerifyBackups, func() error {
					for _, id := range ids {
						err := c.store.Backups.ForgetVerification(ctx, id)
						if errors.Is(err, store.ErrNotFound) {
							return fmt.Errorf("there is no complete backup %q; `mysql-broker backups` lists them", id)
						}
						if err != nil {
							return fmt.Errorf("verify the backup %s: %w", id, err)
						}
					}
					return nil
				})
			}),
	}
	return cli.Describe(command, `  0    a broker verifies them
  1    there is no such backup, or PostgreSQL cannot be reached; standard error says which
`+cli.ExitConfiguration, backupsEnvironment)
}

func restoreBackupCommand() *cobra.Command {
	lost := false
	command := &cobra.Command{
		Use:   "restore BACKUP INSTANCE",
		Short: "Restore a backup into an instance",
		Long: `Replace the data of an instance by those of a backup. A running broker does that, as a task whose name is
printed: it reads the whole backup, takes the write privileges from all accounts, backs up the present data, and
restores. Bindings stay valid. If the task fails or is cancelled, the instance gets its earlier data back.

Use --lost if the server has lost the database and the accounts, or was lost itself. Then nothing is backed up, and the
task fails if the database holds data. The task creates the database and the accounts of the bindings again, and a
dedicated server too, which may get another port. If it fails or is cancelled, it drops what it has restored, and you
can run the command again.`,
		Example: `  mysql-broker backups restore b_4k7qv2m6x3b5n7d9f2h4 7d7c9bb6-4a0f-4f26-9c6d-1f4b7f3a2f10
  mysql-broker backups restore --lost b_4k7qv2m6x3b5n7d9f2h4 7d7c9bb6-4a0f-4f26-9c6d-1f4b7f3a2f10`,
		Args: cli.Exactly(2),
		RunE: begins(withBackups, "%s restores it; `mysql-broker tasks %[1]s` shows its progress.",
			func(ctx context.Context, c *console, args []string) (t store.Task, err error) {
				id, err := c.names.instance(ctx, args[1])
				if err == nil {
					t, err = backups.RestoreBackup(ctx, c.store, c.plans, args[0], id, lost)
				}
				if err != nil {
					return t, fmt.Errorf("restore the backup %s into instance %q: %w", args[0], args[1], err)
				}
				return t, nil
			}),
	}
	confirm(command, "The backup %s replaces the data of instance %s.")
	command.Flags().BoolVar(&lost, "lost", false, "create the database and the accounts again, because they are lost")
	return cli.Describe(command, `  0    a broker restores it
  1    nobody has confirmed it, there is no such backup or instance, the plan allows less data, something else is in
       progress on the instance, or PostgreSQL cannot be reached; standard error says which
`+cli.ExitConfiguration, backupsEnvironment)
}

func importBackupsCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "import",
		Short: "Record the backups in the object store that are not recorded",
		Long: `Record all complete backups in the object store that PostgreSQL does not have, for example because it was
restored from an older backup, or lost. It needs the keyset with which they were written, and only reads the object
store. Backups that cannot be read are named on standard error; then the exit status is 1. What an interrupted backup
has left there is named, too.`,
		Example: `  mysql-broker backups import`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withBackups(cmd, func(ctx context.Context, c *console) error {
				return c.importBackups(ctx, cmd.OutOrStdout(), visible.Writer(cmd.ErrOrStderr()))
			})
		},
	}
	return cli.Describe(command, `  0    all are recorded
  1    some cannot be read, or PostgreSQL or the object store cannot be reached; standard error says which
`+cli.ExitConfiguration, backupsEnvironment)
}

func (c *console) importBackups(ctx context.Context, out, problems io.Writer) error {
	objects, err := c.cfg.Backups.Open()
	if err != nil {
		return err
	}
	imported, unreadable := 0, 0
	vault := backup.Vault{Objects: objects, Keys: c.cfg.Keys}
	err = vault.Each(ctx, func(object string, m backup.Manifest, err error) error {
		if errors.Is(err, backup.ErrUnfinished) {
			return c.nameUnfinished(ctx, problems, object, m.ID)
		}
		if err != nil {
			unreadable++
			_, err = fmt.Fprintln(problems, err)
			return err
		}
		isNew, err := c.store.Backups.Import(ctx, backups.RecordOf(m))
		if isNew {
			imported++
		}
		if err == nil && m.BinaryLog != nil {
			err = c.store.Logs.ImportMark(ctx, backups.MarkOf(m))
		}
		return err
	})
	if err == nil {
		unreadable, err = c.importLogs(ctx, vault, problems, unreadable)
	}
	fmt.Fprintf(out, "Backups imported: %d.\n", imported)
	if err == nil && unreadable > 0 {
		err = fmt.Errorf("not read: %d", unreadable)
	}
	return err
}

// nameUnfinished names a folder that is not of a backup or an archive which is recorded.
func (c *console) nameUnfinished(ctx context.Context, problems io.Writer, folder, id string) error {
	_, err := c.store.Backups.Get(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		_, err = c.store.Logs.Get(ctx, id)
	}
	if errors.Is(err, store.ErrNotFound) {
		_, err = fmt.Fprintf(problems, "%s is what an interrupted backup or archive has left: delete it, unless it is of "+
			"another broker\n", folder)
	}
	return err
}

// importLogs records the archives of binary logs. It adds the number of unreadable ones to unreadable.
func (c *console) importLogs(ctx context.Context, vault backup.Vault, problems io.Writer, unreadable int) (int, error) {
	err := vault.EachLog(ctx, func(object string, l backup.Log, err error) error {
		var end backup.LogEnd
		if err == nil {
			end, err = archive.End(ctx, vault, l)
		}
		if err != nil {
			unreadable++
			_, err = fmt.Fprintf(problems, "%s: %v\n", object, err)
			return err
		}
		_, err = c.store.Logs.Import(ctx, store.BinaryLog{ID: l.ID, InstanceID: l.InstanceID, Server: l.Server,
			Launcher: l.Launcher, BeginFile: l.Begin.File, BeginAt: l.Begin.Offset, BeganAt: l.BeganAt, File: end.At.File,
			Position: end.At.Offset, Until: end.Until})
		return err
	})
	return unreadable, err
}
