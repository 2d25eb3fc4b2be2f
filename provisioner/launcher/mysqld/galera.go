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

// GaleraLibraries are where packages install Galera.
var GaleraLibraries = []string{"/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so",
	"/usr/lib/libgalera_smm.so"}

// GaleraLibrary returns the path of Galera, or "" if it is not installed.
func GaleraLibrary() string {
	n := slices.IndexFunc(GaleraLibraries, func(path string) bool { _, err := os.Stat(path); return err == nil })
	if n < 0 {
		return ""
	}
	return GaleraLibraries[n]
}

// galeraSettings is GroupSettings for MariaDB: Galera, whose members all accept writes.
//
// The launcher begins the group again if all members were lost, so that they need not remember whom they knew
// (pc.recovery). Without keys, the protocol is not encrypted, so it must not leave the host. Rows in tables of other
// engines than InnoDB would not leave the member, and neither would tables that are made with the method RSU, which
// sessions could choose.
// https://mariadb.com/docs/galera-cluster/reference/galera-cluster-system-variables
// https://galeracluster.com/library/documentation/galera-parameters.html
func galeraSettings(g Group, n int) []string {
	protocol := g.Protocol[n-1]
	host, port, _ := net.SplitHostPort(protocol)
	lines := []string{
		"wsrep_on=ON",
		"wsrep_cluster_name=" + strings.ReplaceAll(g.Name, "-", ""), // at most 32 characters
		"wsrep_cluster_address=gcomm://" + strings.Join(g.Protocol, ","),
		"wsrep_node_address=" + host,
		fmt.Sprintf("wsrep_node_name=member-%d", n),
		"wsrep_node_incoming_address=" + g.Addresses[n-1],
		"wsrep_sst_method=" + GaleraTransfer,
		"binlog-format=ROW",
		"innodb-autoinc-lock-mode=2",
		"innodb-force-primary-key=ON",
		"enforce-storage-engine=InnoDB",
		"maximum-wsrep_OSU_method=TOI",
	}
	options := []string{"ist.recv_addr=" + g.Transfer, "gcache.size=64M", "pc.recovery=false"}
	if g.Hosts == nil {
		options = append(options, "gmcast.listen_addr=tcp://"+protocol, "pc.wait_prim_timeout=PT15S")
		lines = append(lines, "wsrep_provider="+Quote(GaleraLibrary()), "wsrep_sst_receive_address="+host)
	} else {
		options = append(options, "gmcast.listen_addr=tcp://0.0.0.0:"+port, "ist.recv_bind=0.0.0.0",
			"pc.wait_prim_timeout=PT10S", "socket.ssl=YES", "socket.ssl_ca="+g.Certificate, "socket.ssl_cert="+g.Certificate,
			"socket.ssl_key="+g.Key)
		lines = append(lines, "wsrep_sst_receive_address="+g.Copy)
	}
	return append(lines, `wsrep_provider_options="`+strings.Join(options, ";")+`"`)
}

// EventsSQL is the content of an init file that lets a server which was started without run events.
var EventsSQL = []byte("SET GLOBAL event_scheduler=ON;\n")

// galeraSQL is GroupSQL for MariaDB, on this host. The account asks for the member's state, also if all connections are
// taken, ends sessions, and lets events run.
func galeraSQL(password string) []byte {
	return append(fmt.Appendf(nil, "CREATE USER IF NOT EXISTS '%[1]s'@'localhost';\n"+
		"ALTER USER '%[1]s'@'localhost' IDENTIFIED BY '%[2]s';\n"+
		"GRANT CONNECTION ADMIN, PROCESS, EVENT, SET USER ON *.* TO '%[1]s'@'localhost';\n", GroupUser, password),
		EventsSQL...)
}

// galeraMemberSQL is MemberSQL for MariaDB. It prepares a server that is in no group yet. The account also gives
// orders, see the package galera.
func galeraMemberSQL(admin []byte, password string) []byte {
	return slices.Concat([]byte("SET SESSION wsrep_on=OFF;\n"), admin,
		fmt.Appendf(nil, "CREATE USER IF NOT EXISTS '%[1]s'@'%%' IDENTIFIED BY '%[2]s';\n"+
			"GRANT CONNECTION ADMIN, PROCESS, EVENT, SET USER, FILE, SHUTDOWN ON *.* TO '%[1]s'@'%%';\n", GroupUser, password))
}
