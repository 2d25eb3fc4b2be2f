package process

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqld"
)

// Kind describes this launcher and its variables to operators.
func Kind() launcher.Kind {
	return launcher.Kind{Name: "process", Where: "on this host", Configure: configure, Variables: []launcher.Variable{
		{Name: "LAUNCHER_DIR", Default: "/var/lib/mysql-broker", Meaning: "state directory"},
		{Name: "LAUNCHER_HOST", Default: "127.0.0.1",
			Meaning: "host name or address by which applications reach dedicated servers"},
		{Name: "LAUNCHER_BIND", Default: "127.0.0.1", Meaning: "IP address on which dedicated servers listen"},
		{Name: "LAUNCHER_PORTS", Default: "13400-13999", Meaning: "port range of dedicated servers"},
		{Name: "LAUNCHER_TIMEOUT", Default: "2m",
			Meaning: "how long a new server may take to come up; raise it where disks are slow"},
		{Name: "LAUNCHER_MYSQLD", Meaning: "path of the mysqld or mariadbd to launch, or several joined by " +
			"commas, of one flavour and different versions; default: the first one found"},
	}}
}

func configure(env *launcher.Environment) launcher.Configured {
	c := Config{Dir: env.Value("LAUNCHER_DIR"), Host: env.Value("LAUNCHER_HOST"), BindAddress: env.Value("LAUNCHER_BIND")}
	if net.ParseIP(c.BindAddress) == nil {
		env.Wrong("LAUNCHER_BIND", "is not an IP address such as 127.0.0.1 or 0.0.0.0")
	}
	low, high, _ := strings.Cut(env.Value("LAUNCHER_PORTS"), "-")
	var err1, err2 error
	c.PortMin, err1 = strconv.Atoi(low)
	c.PortMax, err2 = strconv.Atoi(high)
	if err1 != nil || err2 != nil || c.PortMin < 1 || c.PortMax > 65535 || c.PortMin > c.PortMax {
		env.Wrong("LAUNCHER_PORTS", "is not a range of ports such as 13400-13999")
	}
	var err error
	if c.LaunchTimeout, err = time.ParseDuration(env.Value("LAUNCHER_TIMEOUT")); err != nil || c.LaunchTimeout <= 0 {
		env.Wrong("LAUNCHER_TIMEOUT", "is not a duration such as 2m or 90s")
	}
	binaries, err := mysqld.ChooseBinaries(env.Value("LAUNCHER_MYSQLD"))
	if err != nil {
		env.Wrong("LAUNCHER_MYSQLD", "names no server: %w", err)
	} else {
		c.Binary, c.Others = binaries[0], binaries[1:]
	}
	c.name = env.Name
	return c
}

// Open implements launcher.Configured.
func (c Config) Open(o launcher.Options) (launcher.Launcher, error) {
	c.Options = o
	l, err := Open(c)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Beside implements launcher.Configured. If the port ranges overlapped, a new server of one launcher could take the
// port of a stopped server of the other, which could then not be started again.
func (c Config) Beside(other launcher.Configured) error {
	o, ok := other.(Config)
	switch {
	case !ok:
		return nil
	case c.Dir == o.Dir:
		return fmt.Errorf("both have the directory %s: set %s", c.Dir, c.name("LAUNCHER_DIR"))
	case c.PortMin <= o.PortMax && o.PortMin <= c.PortMax:
		return fmt.Errorf("their ports overlap: set %s", c.name("LAUNCHER_PORTS"))
	}
	return nil
}
