package testdrive

import (
	"mysql-broker/provisioner/launcher/launchertest"
	"mysql-broker/provisioner/launcher/process/processtest"
)

// Inspectors returns the inspector of the one launcher of an environment, by the launcher's name, for audits.
func Inspectors(env map[string]string) map[string]launchertest.Inspector {
	return map[string]launchertest.Inspector{env["LAUNCHER"]: processtest.Inspector{Dir: env["LAUNCHER_DIR"]}}
}
