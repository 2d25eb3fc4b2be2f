package mysqld

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
)

// GaleraTransfer is the name of the method by which a member of a group of MariaDB servers gets all data from another
// one: the server runs the program wsrep_sst_ and this name.
const GaleraTransfer = "broker"

// galeraLibraries are where packages install Galera.
var galeraLibraries = []string{"/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so",
	"/usr/lib/libgalera_smm.so"}

// GaleraLibrary returns the path of Galera, or "" if it is not installed.
func GaleraLibrary() string {
	n := slices.IndexFunc(galeraLibraries, func(path string) bool { _, err := os.Stat(path); return err == nil })
	if n < 0 {
		return ""
	}
	return galeraLibraries[n]
}

// galeraSettings is GroupSettings for MariaDB: Galera, whose members all accept writes.
//
// The launcher begins the group again if all members were lost, so that they need not remember whom they knew
// (pc.recovery). The protocol is not encrypted, so it must not leave the host. Rows in tables of other engines than
// InnoDB would not leave the member.
// https://mariadb.com/docs/galera-cluster/reference/galera-cluster-system-variables
// https://galeracluster.com/library/documentation/galera-parameters.html
func galeraSettings(g Group, n int) []string {
	protocol := g.Protocol[n-1]
	host, _, _ := net.SplitHostPort(protocol)
	return []string{
		"wsrep_on=ON",
		"wsrep_provider=" + Quote(GaleraLibrary()),
		"wsrep_cluster_name=" + strings.ReplaceAll(g.Name, "-", ""), // at most 32 characters
		"wsrep_cluster_address=gcomm://" + strings.Join(g.Protocol, ","),
		"wsrep_node_address=" + host,
		fmt.Sprintf("wsrep_node_name=member-%d", n),
		"wsrep_node_incoming_address=" + g.Addresses[n-1],
		"wsrep_sst_method=" + GaleraTransfer,
		"wsrep_sst_receive_address=" + host,
		"binlog-format=ROW",
		"innodb-autoinc-lock-mode=2",
		"innodb-force-primary-key=ON",
		"enforce-storage-engine=InnoDB",
		fmt.Sprintf(`wsrep_provider_options="gmcast.listen_addr=tcp://%s;ist.recv_addr=%s;gcache.size=64M;`+
			`pc.recovery=false;pc.wait_prim_timeout=PT15S"`, protocol, g.Transfer),
	}
}

// EventsSQL is the content of an init file that lets a server which was started without run events.
var EventsSQL = []byte("SET GLOBAL event_scheduler=ON;\n")

// galeraSQL is GroupSQL for MariaDB. The account asks for the member's state, also if all connections are taken, and
// ends sessions.
func galeraSQL(password string) []byte {
	return append(fmt.Appendf(nil, "CREATE USER IF NOT EXISTS '%[1]s'@'localhost';\n"+
		"ALTER USER '%[1]s'@'localhost' IDENTIFIED BY '%[2]s';\n"+
		"GRANT CONNECTION ADMIN, PROCESS ON *.* TO '%[1]s'@'localhost';\n", GroupUser, password), EventsSQL...)
}
