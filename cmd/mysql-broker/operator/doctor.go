package operator

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"mysql-broker/cmd/mysql-broker/app"
	"mysql-broker/cmd/mysql-broker/cli"
	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/provisioner/doctor"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/memory"
)

func doctorCommand() *cobra.Command {
	var beforeStart, repair, asJSON bool
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Find orphans and missing objects on the servers, and repair them",
		Long: `Compare the records in PostgreSQL with the databases and accounts on the shared servers, with the dedicated
servers, and with the credentials in CredHub. Brokers can run meanwhile; their running operations are not mistaken for
problems.

  orphan       it exists, and nothing needs it any more. --repair drops it, with all data in it.
  missing      it must exist, and does not. --repair creates an account again, with its password and role. It does not
               create databases and dedicated servers again, because their data would still be missing. A broker stores
               a missing credential in CredHub again.
  kept         its creation failed, but it exists, because it held data, as after PostgreSQL was restored from a backup,
               or could not be removed. docs/runbook.md says what to do. It is never touched.
  blocked      its deletion began more than an hour ago, and the server has prepared XA transactions that are older than
               that. They outlive their sessions and prevent databases from being dropped. --repair rolls back the
               transaction, if it is the server's only one, and drops the database.
  abandoned    an instance or a binding is neither complete nor deleted, and no task works on it.
  unreachable  a server or CredHub does not answer, so nothing is known about it, a node of a cluster is down or no
               member of it, or the object store cannot be used.
  stray        an account without a record has access to an instance's database.
  deviating    an account has privileges that do not match its role and its instance's quota. --repair sets them, on
               shared servers. They are compared only if the broker's account can read mysql.db. Or a launcher lacks
               rights in Kubernetes.
  limited      the broker's account on a shared server lacks a privilege that only some operations need, or an image of
               servers in Kubernetes is named without its digest.
  refused      Kubernetes would refuse the servers of a plan, for example because of its labels.
  unrecorded   its name looks like the broker's, but the broker has no record of it. It may belong to another broker and
               is never touched.

Dedicated servers are found only on their host: with the launcher "process", the broker's.

With --before-start, it compares nothing, and tries all that the configuration names instead: PostgreSQL, which may be
empty, the shared servers and the broker's privileges there, launchers, the object store, CredHub, the certificate, the
port and the memory limit.

With --json, the output is one object with findings, each with problem, kind, server, name, instance_id, binding_id,
age_seconds, repairable, to_do, done and error, and compared, the number of objects.`,
		Example: `  mysql-broker doctor --before-start
  mysql-broker doctor
  mysql-broker doctor --repair
  mysql-broker doctor --json | jq '.findings[] | select(.problem == "missing")'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if beforeStart {
				return checkBeforeStart(cmd)
			}
			return withServers(cmd, config.ForDoctor.Read, func(ctx context.Context, c *console, f *fleet.Fleet) error {
				d, err := c.doctor(f)
				if err != nil {
					return err
				}
				compared, lines, err := diagnose(ctx, d, repair)
				if err == nil {
					err = show(cmd.OutOrStdout(), compared, lines, asJSON)
				}
				if err != nil {
					return err
				}
				return remaining(lines)
			})
		},
	}
	command.Flags().BoolVar(&beforeStart, "before-start", false, "try all that the configuration names")
	command.Flags().BoolVar(&repair, "repair", false, "repair the findings that can be repaired")
	command.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	command.MarkFlagsMutuallyExclusive("before-start", "repair")
	command.MarkFlagsMutuallyExclusive("before-start", "json")
	return cli.Describe(command, `  0    nothing was found, or everything was repaired; limited and unrecorded do not count
  1    something remains, or the examination failed; standard error says which
`+cli.ExitConfiguration, cli.ServersEnvironment)
}

func checkBeforeStart(cmd *cobra.Command) error {
	cfg, c, err := cli.Load(config.FromEnvironment, cli.Getenv(cmd))
	if err != nil {
		return err
	}
	if err := cfg.CheckPlans(c.Plans()); err != nil {
		return &cli.ConfigError{Err: err}
	}
	cfg.MemoryLimit = memory.Limit(cli.Getenv(cmd))
	wrong := 0
	for _, check := range app.BeforeStart(cmd.Context(), cfg, c, cli.Logger(cmd, slog.LevelError)) {
		result := "ok"
		if check.Err != nil {
			result = strings.ReplaceAll(check.Err.Error(), "\n", "\n  ")
			wrong++
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", check.What, result)
	}
	if wrong > 0 {
		return fmt.Errorf("not ready to start; checks that failed: %d", wrong)
	}
	return nil
}

func (c *console) doctor(f *fleet.Fleet) (*doctor.Doctor, error) {
	hub, err := c.cfg.CredHub.Open()
	if err != nil {
		return nil, err
	}
	objects, err := c.cfg.Backups.Open()
	return doctor.New(doctor.Config{Store: c.store, Plans: c.plans, Fleet: f, CredHub: hub, Objects: objects}), err
}

// diagnose returns what the doctor finds. With repair, it first repairs what can be repaired.
func diagnose(ctx context.Context, d *doctor.Doctor, repair bool) (doctor.Compared, []diagnosis, error) {
	report, err := d.Examine(ctx)
	if err != nil {
		return report.Compared, nil, err
	}
	lines := make([]diagnosis, len(report.Findings))
	for i, f := range report.Findings {
		line := diagnosis{Finding: f, AgeSeconds: int64(f.Age.Seconds())}
		if repair && f.Repairable {
			if line.Done, err = d.Repair(ctx, f); err != nil {
				line.Done, line.Error = "", err.Error()
			}
		}
		lines[i] = line
	}
	return report.Compared, lines, nil
}

// diagnosis is a finding for output, and its repair.
type diagnosis struct {
	doctor.Finding
	AgeSeconds int64  `json:"age_seconds,omitempty"` // since its record
	Done       string `json:"done,omitempty"`
	Error      string `json:"error,omitempty"` // why the repair failed
}

func remaining(lines []diagnosis) error {
	left, repairable := 0, 0
	for _, d := range lines {
		if d.Done == "" && d.Problem.Counts() {
			left++
			if d.Repairable && d.Error == "" {
				repairable++
			}
		}
	}
	switch {
	case left == 0:
		return nil
	case repairable > 0:
		return fmt.Errorf("problems that remain: %d; `mysql-broker doctor --repair` can mend %d", left, repairable)
	}
	return fmt.Errorf("problems that remain: %d", left)
}

func show(out io.Writer, compared doctor.Compared, lines []diagnosis, asJSON bool) error {
	if asJSON {
		return writeJSON(out, map[string]any{"findings": lines, "compared": compared})
	}
	counts := fmt.Sprintf("Compared with what is recorded: databases %d, accounts %d, on shared servers %d; "+
		"dedicated servers %d.", compared.Databases, compared.Accounts, compared.SharedServers, compared.DedicatedServers)
	if len(lines) == 0 {
		_, err := fmt.Fprintln(out, "All is well. "+counts)
		return err
	}
	if err := printTable(out, lines); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, counts)
	return err
}

func (d diagnosis) cells() []cell {
	return []cell{{"problem", string(d.Problem)}, {"what", d.Kind}, {"where", d.Server}, {"name", d.Name},
		{"instance", d.InstanceID}, {"binding", d.BindingID}, {"age", age(d.AgeSeconds)}, {"to do", d.action()}}
}

func (d diagnosis) action() string {
	switch {
	case d.Done != "":
		return d.Done
	case d.Error != "":
		return d.ToDo + "; this failed: " + d.Error
	case d.Repairable:
		return "--repair: " + d.ToDo
	}
	return d.ToDo
}
