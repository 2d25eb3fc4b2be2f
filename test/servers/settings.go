package servers

import (
	sharedserver "mysql-broker/deploy/shared-server"
	"mysql-broker/provisioner/launcher/mysqld"
)

// variations are how shared servers of tests differ from those that operators are told to run. MySQL's measures no more
// than limits of memory need, which spares it half a second and 100 MiB; and as MariaDB may have partitions, tests have
// some.
var variations = map[string][]string{
	mysqld.MySQL:   {"performance-schema-instrument='%=OFF'", "performance-schema-instrument='memory/%=ON'"},
	mysqld.MariaDB: {"partition=ON"},
}

// Settings are those of shared servers for tests.
func Settings(flavour string) ([]string, error) {
	shipped, err := sharedserver.Settings(flavour)
	return append(shipped, variations[flavour]...), err
}
