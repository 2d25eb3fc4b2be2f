package testdrive

import (
	"mysql-broker/provisioner/launcher/launchertest"
	"mysql-broker/provisioner/launcher/process/processtest"
)

// Inspectors are those of the one launcher of an environment, by its name, for audits.
func Inspectors(env map[string]string) map[string]launchertest.Inspector {
	return map[string]launchertest.Inspector{env["LAUNCHER"]: processtest.Inspector{Dir: env["LAUNCHER_DIR"]}}
}
