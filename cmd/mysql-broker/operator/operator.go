// Package operator has the commands by which operators see and change what brokers have recorded.
package operator

import "github.com/spf13/cobra"

// Commands returns the commands. No broker need run.
func Commands() []*cobra.Command {
	return []*cobra.Command{instancesCommand(), bindingsCommand(), tasksCommand(), retainedCommand(), backupsCommand(),
		quotasCommand(), auditCommand(), serversCommand(), drainCommand(), moveCommand(), upgradeCommand(),
		rotateBindingsCommand(), doctorCommand(), recoverCommand()}
}
