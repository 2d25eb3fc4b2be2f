package model

import (
	"maps"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"strconv"
	"testing"
	"time"

	"mysql-broker/test/network"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// ways is a network between the brokers and the proxies, which loses and delays packets. Each broker has ports of
// its own at both servers, so that the network can fail for one broker alone.
type ways struct {
	*network.Network
	postgres, mysql *network.Host
	ports           map[*network.Host][3]int // of each broker
	described       [3]string                // MYSQL_SERVERS of each broker
}

// newWays makes the network, or none for those who may not make network namespaces.
func newWays(t *testing.T) *ways {
	if os.Geteuid() != 0 {
		return nil
	}
	n, hosts := network.New(t, 2)
	return &ways{Network: n, postgres: hosts[0], mysql: hosts[1], ports: map[*network.Host][3]int{}}
}

// mysqlHost is what brokers connect to.
func (w *ways) mysqlHost() string {
	if w == nil {
		return "127.0.0.1"
	}
	return w.mysql.Addr.String()
}

// lead has the network lead brokers to the proxies of the world, and applications past it.
func (w *ways) lead(t *testing.T, to *world, shared servers.MySQL) {
	for host, target := range map[*network.Host]string{w.postgres: to.postgres.Addr(), w.mysql: to.mysql.Addr()} {
		var ports [3]int
		for n := range ports {
			ports[n] = testdrive.NewProxyOn(t, host, target).Port()
		}
		w.ports[host] = ports
	}
	for n, port := range w.ports[w.mysql] {
		through := shared
		through.Host, through.Port = w.mysqlHost(), port
		described := testdrive.Described("shared-1", through)
		described["host"], described["port"] = shared.Host, shared.Port
		w.described[n] = testdrive.Encode(t, []any{described})
	}
}

// envOf is the environment of a broker.
func (w *world) envOf(n int) map[string]string {
	if w.network == nil {
		return w.env
	}
	env := maps.Clone(w.env)
	u, err := url.Parse(env["DATABASE_URL"])
	if err != nil {
		w.t.Fatal("the URL of PostgreSQL is malformed") // err would show its password
	}
	postgres := w.network.postgres
	u.Host = net.JoinHostPort(postgres.Addr.String(), strconv.Itoa(w.network.ports[postgres][n]))
	env["DATABASE_URL"], env["MYSQL_SERVERS"] = u.String(), w.network.described[n]
	return env
}

// direction is what a fault of the network hits.
type direction bool

const (
	requests  direction = true
	responses direction = false
)

// lose loses all packets in one direction, for one broker or for all. What was lost arrives when TCP sends it again,
// possibly after others have taken over.
func (w *ways) lose(server *network.Host, d direction, random *rand.Rand) {
	from, to := w.Outside, server
	if d == responses {
		from, to = server, w.Outside
	}
	for _, port := range w.chosen(server, random) {
		w.SetPort(from, to, port, network.Lost)
	}
	long := random.IntN(4) == 0
	if long {
		time.Sleep(pauseTime)
	} else {
		time.Sleep(outageTime(random))
	}
	w.Heal()
}

// chosen are the ports at a server of one broker, or of all.
func (w *ways) chosen(server *network.Host, random *rand.Rand) []int {
	all := w.ports[server]
	if random.IntN(2) == 0 {
		return all[:]
	}
	n := random.IntN(len(all))
	return all[n : n+1]
}

// slow delays all packets, and loses some.
func (w *ways) slow(server *network.Host, random *rand.Rand) {
	rule := network.Rule{Delay: time.Duration(20+random.IntN(200)) * time.Millisecond, Loss: random.Float64() / 5}
	w.Set(w.Outside, server, rule)
	w.Set(server, w.Outside, rule)
	time.Sleep(outageTime(random))
	w.Heal()
}
