package process

import (
	"testing"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqld"
)

// A broker does not start with a plan of groups that its servers cannot form.
func TestRunsGroups(t *testing.T) {
	t.Parallel()
	for v, can := range map[launcher.Version]bool{
		{Flavour: mysqld.MySQL, Version: "8.0.44"}: false,
		{Flavour: mysqld.MySQL, Version: "8.4.0"}:  true,
		{Flavour: mysqld.MySQL, Version: "9.7.4"}:  true,

		{Flavour: mysqld.MariaDB, Version: "10.11.14"}: mysqld.GaleraLibrary() != "",
	} {
		if err := runsGroups(v); (err == nil) != can {
			t.Errorf("%v: %v", v, err)
		}
	}
}
