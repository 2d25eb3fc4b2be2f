package cli

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"mysql-broker/cmd/mysql-broker/config"
)

// Annotations of commands, shown by their help.
const (
	exitSection        = "exit status"
	environmentSection = "environment"
)

// Describe adds sections to a command's help: its exit statuses and its environment variables.
func Describe(command *cobra.Command, exit, environment string) *cobra.Command {
	command.Annotations = map[string]string{exitSection: exit, environmentSection: environment}
	return command
}

// HelpTemplate has the order of manual pages.
const HelpTemplate = `{{.CommandPath}} - {{.Short}}

{{if .Runnable}}Usage:
  {{.UseLine}}

{{end}}{{with .Long}}{{. | trimTrailingWhitespaces}}

{{end}}{{if .HasAvailableSubCommands}}Commands:{{range .Commands}}{{if or .IsAvailableCommand (eq .Name "help")}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}

{{end}}{{if .HasAvailableLocalFlags}}Flags:
{{.LocalFlags.FlagUsagesWrapped 120 | trimTrailingWhitespaces}}

{{end}}{{if .HasAvailableInheritedFlags}}Flags of {{.Parent.CommandPath}}:
{{.InheritedFlags.FlagUsagesWrapped 120 | trimTrailingWhitespaces}}

{{end}}{{if .HasExample}}Examples:
{{.Example}}

{{end}}{{with index .Annotations "exit status"}}Exit status:
{{.}}

{{end}}{{with index .Annotations "environment"}}Environment:
{{.}}

{{end}}{{if .HasAvailableSubCommands}}"{{.CommandPath}} COMMAND --help" describes a command.
{{end}}`

const JSONHelp = `With --json, a list is one array with an object on each line, and a single item is one object.
Releases only add fields; empty fields may be absent; times are RFC 3339 in UTC.`

const (
	ExitConfiguration = `  78   the configuration is invalid; standard error lists every problem`
	RecordedExit      = `  0    the output is complete, even if it is empty
  1    there is no such item, an argument is wrong, or PostgreSQL cannot be reached; standard error says which
` + ExitConfiguration
)

// The environment of commands that change records, show records, use dedicated servers, or use all servers.
var (
	StoredEnvironment    = EnvironmentOf(config.Stored)
	RecordedEnvironment  = EnvironmentOf(config.ForOperator)
	DedicatedEnvironment = EnvironmentOf(config.Dedicated)
	ServersEnvironment   = EnvironmentOf(config.ForDoctor)
)

// EnvironmentOf describes the variables that a command needs.
func EnvironmentOf(needs config.Needs) string {
	return VariablesOf(needs.Variables()...) + DevelopmentEnvironment
}

const DevelopmentEnvironment = `
On Cloud Foundry, VCAP_SERVICES is read too. Without PostgreSQL in the environment, the command uses the development
broker: "mysql-broker dev" writes the environment of its servers to the file environment in MYSQL_BROKER_DEV_DIR
(default .dev).`

// helpWidth is how long lines of help are, in characters, as in the source.
const helpWidth = 120

// wrap breaks longer lines between words. What follows is indented by so many spaces.
func wrap(text string, width, indent int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		for utf8.RuneCountInString(line) > width+1 { // with its end
			at := strings.LastIndexByte(string([]rune(line)[:width+1]), ' ')
			if strings.TrimSpace(line[:max(at, 0)]) == "" {
				break
			}
			b.WriteString(strings.TrimRight(line[:at], " ") + "\n")
			line = strings.Repeat(" ", indent) + line[at+1:]
		}
		b.WriteString(line)
	}
	return b.String()
}

// VariablesOf returns what each of these environment variables is for.
func VariablesOf(names ...string) string {
	var b strings.Builder
	for _, v := range config.Variables {
		if len(names) > 0 && !slices.Contains(names, v.Name) {
			continue
		}
		line := fmt.Sprintf("  %-24s %s", v.Name, v.Meaning)
		if v.Default != "" {
			line += fmt.Sprintf(" (default %s)", v.Default)
		}
		b.WriteString(wrap(line+"\n", helpWidth, 27))
	}
	return b.String()
}

// SuggestBelow makes commands with subcommands refuse unknown words, and suggest a subcommand. Cobra does so only for
// the first word.
func SuggestBelow(parent *cobra.Command) {
	for _, c := range parent.Commands() {
		if !c.HasSubCommands() {
			continue
		}
		if !c.Runnable() {
			c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
		c.SuggestionsMinimumDistance = 2
		check := c.Args
		c.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			if err == nil || len(args) == 0 {
				return err
			}
			meant := c.SuggestionsFor(args[0])
			if len(meant) == 0 {
				return err
			}
			return fmt.Errorf("%w\n\nDid you mean this?\n\t%s", err, strings.Join(meant, "\n\t"))
		}
	}
}
