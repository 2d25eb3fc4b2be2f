// Package client is the command "client": an Open Service Broker client for people without a platform. It behaves like
// Cloud Foundry's Cloud Controller, and stores names as the Cloud Controller would.
package client

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mysql-broker/cmd/mysql-broker/cli"
)

const long = "Talks to a service broker as Cloud Foundry would, and remembers the names of service instances and keys."

// help has the sections of every command's help.
var help = map[string]string{
	"exit status": `  0    it is done; what --json prints is the result
  1    the broker refused or failed, cannot be reached, or the command is wrong; standard error says which`,
	"environment": `  BROKER_URL, BROKER_USERNAME, BROKER_PASSWORD   the broker (default: that of "mysql-broker dev")
  MYSQL_BROKER_DEV_DIR                           where that one left its address (default .dev)
  MYSQL_BROKER_CLIENT_STATE                      the file of names (default: of the development broker in its
                                                 directory, else $XDG_STATE_HOME/mysql-broker/client.json)
  SSL_CERT_FILE                                  the CA certificate of a broker with https:// that the system does
                                                 not know`,
}

// examples are for the commands with arguments, in the order in which a person would try them.
var examples = []string{
	`mysql-broker client create-service dedicated-small orders`,
	`mysql-broker client create-service-key orders report -c '{"role":"read-only"}'`,
	`mysql-broker client service-key orders report --json`,
	`mysql-broker client service orders`,
	`mysql-broker client update-service orders -p dedicated-large`,
	`mysql-broker client delete-service-key orders report`,
	`mysql-broker client delete-service orders`,
}

// Command is the command "client". Its commands write their result to the command's output, progress to its error
// output, and return an error that is a sentence for the user.
func Command(getenv func(string) string) *cobra.Command {
	o := options{getenv: getenv}
	cmd := &cobra.Command{Use: "client", Short: "A small client for any service broker", Long: long,
		Example: "  " + strings.Join(examples, "\n  "), Annotations: help,
		Args: cobra.NoArgs}
	flags := cmd.PersistentFlags()
	flags.StringVar(&o.url, "url", "", "the broker's URL (BROKER_URL)")
	flags.StringVar(&o.username, "username", "", "the broker's user (BROKER_USERNAME)")
	flags.BoolVar(&o.json, "json", false, "print one JSON document")
	update := o.withParameters("update-service NAME",
		"Change a service instance's plan, or parameters that its plan lets change", 1, (*session).updateService)
	update.Flags().StringVarP(&o.plan, "plan", "p", "", "the new plan")
	cmd.AddCommand(
		o.command("catalog", "List service offerings and plans", 0, (*session).catalog),
		o.command("services", "List service instances", 0, (*session).services),
		o.command("service NAME", "Show a service instance", 1, (*session).service),
		o.withParameters("create-service PLAN NAME", "Create a service instance", 2, (*session).createService),
		update,
		o.command("delete-service NAME", "Delete a service instance and its keys", 1, (*session).deleteService),
		o.withParameters("create-service-key NAME KEY", "Create a key: credentials of its own", 2,
			(*session).createKey),
		o.command("service-key NAME KEY", "Show a key's credentials", 2, (*session).key),
		o.command("delete-service-key NAME KEY", "Delete a key; its credentials end at once", 2,
			(*session).deleteKey),
	)
	return cmd
}

func (o *options) withParameters(use, short string, args int, run action) *cobra.Command {
	cmd := o.command(use, short, args, run)
	cmd.Flags().StringVarP(&o.parameters, "config", "c", "", "parameters: a JSON object")
	return cmd
}

// action is what a command does with its arguments.
type action func(s *session, ctx context.Context, args []string) error

func (o *options) command(use, short string, args int, run action) *cobra.Command {
	name, _, _ := strings.Cut(use, " ")
	example := "mysql-broker client " + name
	if i := slices.IndexFunc(examples, func(e string) bool { return strings.HasPrefix(e, example+" ") }); i >= 0 {
		example = examples[i]
	}
	return &cobra.Command{
		Use:         use,
		Short:       short,
		Example:     "  " + example,
		Annotations: help,
		Args:        cli.Exactly(args),
		RunE: func(cmd *cobra.Command, args []string) error {
			cmd.SilenceUsage = true // later errors are not about usage
			s, err := o.session(cmd)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			return run(s, ctx, args)
		},
	}
}
