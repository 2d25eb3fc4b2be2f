package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mysql-broker/cmd/mysql-broker/config"
)

// Annotations of commands, shown by their help.
const (
	exitSection        = "exit status"
	environmentSection = "environment"
)

// describe adds sections to a command's help: what its exit status means, and what it reads of the environment.
func describe(command *cobra.Command, exit, environment string) *cobra.Command {
	command.Annotations = map[string]string{exitSection: exit, environmentSection: environment}
	return command
}

// helpTemplate orders help as manual pages do.
const helpTemplate = `{{.CommandPath}} - {{.Short}}

{{if .Runnable}}Usage:
  {{.UseLine}}

{{end}}{{with .Long}}{{. | trimTrailingWhitespaces}}

{{end}}{{if .HasAvailableSubCommands}}Commands:{{range .Commands}}{{if or .IsAvailableCommand (eq .Name "help")}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}

{{end}}{{if .HasAvailableLocalFlags}}Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}

{{end}}{{if .HasAvailableInheritedFlags}}Flags of {{.Parent.CommandPath}}:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}

{{end}}{{if .HasExample}}Examples:
{{.Example}}

{{end}}{{with index .Annotations "exit status"}}Exit status:
{{.}}

{{end}}{{with index .Annotations "environment"}}Environment:
{{.}}

{{end}}{{if .HasAvailableSubCommands}}"{{.CommandPath}} COMMAND --help" tells more about a command.
{{end}}`

const jsonHelp = `With --json, a list is one array with an object on each line, and what is shown alone is one object.
Fields are only ever added; those that are empty may be absent; times are RFC 3339 in UTC.`

const (
	exitConfiguration = `  78   the configuration cannot work; standard error lists every problem`
	recordedExit      = `  0    what was asked for is printed, even if there is none
  1    there is no such thing, an argument is wrong, or PostgreSQL cannot be reached; standard error says which
` + exitConfiguration
)

// What commands read: of what is recorded, to change it or to show it; of dedicated servers; of all servers.
var (
	storedEnvironment    = environmentOf()
	recordedEnvironment  = environmentOf("MYSQL_SERVERS", "CATALOG")
	dedicatedEnvironment = environmentOf(config.LauncherVariables()...)
	serversEnvironment   = environmentOf(slices.Concat(config.LauncherVariables(),
		[]string{"MYSQL_SERVERS", "CATALOG", "LOG_LEVEL"})...)
)

// environmentOf is about what every command reads that works on what is recorded, and about these variables.
func environmentOf(names ...string) string {
	stored := []string{"DATABASE_URL", "DATABASE_SERVICE", "ENCRYPTION_KEYSET"}
	return variablesOf(append(stored, names...)...) + developmentEnvironment
}

const developmentEnvironment = `
On Cloud Foundry, VCAP_SERVICES is read too. If nothing there leads to PostgreSQL, the command is about the development
broker: "mysql-broker dev" leaves the environment of its servers in the file environment in MYSQL_BROKER_DEV_DIR
(default .dev).`

// variablesOf is a line about each of these environment variables.
func variablesOf(names ...string) string {
	var b strings.Builder
	for _, v := range config.Variables {
		if len(names) > 0 && !slices.Contains(names, v.Name) {
			continue
		}
		fmt.Fprintf(&b, "  %-24s %s", v.Name, v.Meaning)
		if v.Default != "" {
			fmt.Fprintf(&b, " (default %s)", v.Default)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
