package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"mysql-broker/cmd/mysql-broker/cli"
	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/recovery"
	"mysql-broker/store"
)

func recoverCommand() *cobra.Command {
	var apply, force, asJSON bool
	var without []string
	command := &cobra.Command{
		Use:   "recover",
		Short: "Make a restored PostgreSQL and the servers agree again",
		Long: `Show what has changed on the servers since the backup from which PostgreSQL was restored and, with --apply,
record it. Until then, while PostgreSQL is older than the servers, brokers change and remove nothing by themselves;
/readyz has the status "held". Brokers can run meanwhile.

  end      an operation that was in progress when the backup was made is recorded as finished
  forget   an instance or a binding that was deleted since is forgotten: deleting it again gets a 410
  adopt    an instance that was created since is recorded, with its plan, organization and space; so are changes of
           plan, places to which data was moved, and passwords of the broker's accounts on dedicated servers. Changes in
           the last minute before PostgreSQL was lost may be missing. An instance whose data may not be what
           applications wrote last is frozen: the line has the commands that end this.
  shut     an account that was created since is locked, and its sessions end, because nothing records which binding it
           belongs to. Bind its application again.
  settle   brokers set privileges that may not match a role or a quota, within about a minute
  look     an operator has to decide

It removes no database, table or server. New tasks get numbers above all earlier ones. When everything is done, brokers
resume all work. A server that does not answer prevents that; if it is lost forever, leave it out with --without.

With --json, the output is one object with held (since and reason, or null), items, each with action, kind, server,
name, instance_id, binding_id, why, done (of settle: left to brokers) and error, and resumed.`,
		Example: `  mysql-broker recover
  mysql-broker recover --apply
  mysql-broker recover --apply --without mysql-server-2
  mysql-broker recover --json | jq '.items[] | select(.action == "shut")'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withServers(cmd, config.ForDoctor.Read, func(ctx context.Context, c *console, f *fleet.Fleet) error {
				cfg := recovery.Config{Store: c.store, Fleet: f, Without: without}
				report, err := recoverFrom(ctx, cfg, apply, force)
				if showing := report.show(cmd.OutOrStdout(), asJSON, apply); err == nil {
					err = showing
				}
				return err
			})
		},
	}
	flags := command.Flags()
	flags.BoolVar(&apply, "apply", false, "carry out what is shown")
	flags.BoolVar(&force, "force", false, "with --apply: even if PostgreSQL does not seem to be restored")
	flags.Var(givenList(&without), "without",
		"leave out a server that is lost: a shared one's name, or a dedicated one's id")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cli.Describe(command, `  0    it is shown or, with --apply, done, and brokers carry on
  1    something is unknown or failed; standard error says what
`+cli.ExitConfiguration, cli.ServersEnvironment)
}

// recoverReport is the output of --json.
type recoverReport struct {
	Held    *store.Hold   `json:"held"`
	Items   []recoverItem `json:"items"`
	Resumed bool          `json:"resumed"`

	refused bool // nothing was looked at
}

type recoverItem struct {
	recovery.Item
	Done  bool   `json:"done"`
	Error string `json:"error,omitempty"`

	resumed bool // brokers carry on
}

// errNotHeld refuses a recovery that is not needed.
var errNotHeld = errors.New("PostgreSQL does not seem to be restored from a backup: it has every task that the " +
	"servers have recorded. To recover all the same, add --force")

// recoverFrom lists the changes, and with apply makes them. Show its result even if there is an error.
func recoverFrom(ctx context.Context, cfg recovery.Config, apply, force bool) (report recoverReport, err error) {
	held, err := cfg.Store.Recovery.Hold(ctx)
	if err != nil {
		return report, err
	}
	if apply {
		if held == nil && !force {
			report.refused = true
			return report, errNotHeld
		}
		if err := recovery.Begin(ctx, cfg.Store); err != nil {
			return report, err
		}
		if err := cfg.Store.Audit.Record(ctx, "recover", "", "", ""); err != nil {
			return report, err
		}
	}
	plan, err := recovery.New(ctx, cfg)
	if err != nil {
		return report, err
	}
	report.Held = plan.Hold
	failed := 0
	for _, i := range plan.Items {
		line := recoverItem{Item: i}
		if apply && i.Action != recovery.Look {
			if err := i.Do(ctx); err != nil {
				line.Error = err.Error()
				failed++
			} else {
				line.Done = true
			}
		}
		report.Items = append(report.Items, line)
	}
	switch {
	case !apply:
		return report, nil
	case failed > 0:
		return report, fmt.Errorf("not done: %d; PostgreSQL stays held: run this again", failed)
	case plan.Blocked():
		return report, errors.New("PostgreSQL stays held, because not all servers can be asked: see above")
	}
	if err := plan.End(ctx); err != nil {
		return report, err
	}
	report.Resumed = true
	return report, nil
}

func (r recoverReport) show(out io.Writer, asJSON, applied bool) error {
	if asJSON {
		if r.Items == nil {
			r.Items = []recoverItem{}
		}
		return writeJSON(out, r)
	}
	if r.Held != nil {
		fmt.Fprintf(out, "Held since %s. %s\n", at(r.Held.Since), r.Held.Reason)
	} else {
		fmt.Fprintln(out, "PostgreSQL is not held: it does not seem to be restored from a backup.")
	}
	if len(r.Items) > 0 {
		for n := range r.Items {
			r.Items[n].resumed = r.Resumed
		}
		if err := printTable(out, r.Items); err != nil {
			return err
		}
	}
	sentence := "With --apply, all of this is done, but what an operator has to look at, and brokers carry on."
	switch {
	case r.refused:
		sentence = "Nothing was changed."
	case !applied && len(r.Items) > 0 && r.Held == nil:
		sentence = "With --apply --force, all of this is done, but what an operator has to look at."
	case r.Resumed:
		sentence = "All of this is done, but what an operator has to look at. Brokers carry on with everything."
		if slices.ContainsFunc(r.Items, func(i recoverItem) bool { return i.Action == recovery.Settle }) {
			sentence += " Some accounts may not be able to write, or may write too much, until brokers have settled them."
		}
	case applied:
		sentence = "Brokers do not carry on yet."
	case len(r.Items) == 0:
		sentence = "There is nothing to be done."
		if r.Held != nil {
			sentence += " With --apply, brokers carry on."
		}
	}
	_, err := fmt.Fprintln(out, sentence)
	return err
}

func (i recoverItem) cells() []cell {
	return []cell{{"action", string(i.Action)}, {"what", i.Kind}, {"where", i.Server}, {"name", i.Name},
		{"instance", i.InstanceID}, {"binding", i.BindingID}, {"why", i.state()}}
}

func (i recoverItem) state() string {
	switch {
	case i.Error != "":
		return i.Why + "; this failed: " + i.Error
	case i.Done && i.Action == recovery.Settle && !i.resumed:
		return i.Why + " (brokers set them when they carry on)"
	case i.Done && i.Action == recovery.Settle:
		return i.Why + " (left to brokers, which set them within about a minute)"
	case i.Done:
		return i.Why + " (done)"
	}
	return i.Why
}
