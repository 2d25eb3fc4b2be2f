package kubernetes

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes/api"
	"mysql-broker/provisioner/launcher/mysqld"
)

// A group has one Secret, like a single server, which owns everything else. Each of its members has a claim, a Service
// and a StatefulSet like a single server, by its number. Besides, a Service leads to the primary, a headless one gives
// the members the names by which they reach each other, and a PodDisruptionBudget keeps two of them running.

// group is recorded for a server that is a group.
type group struct {
	Name    string          `json:"name"` // a UUID
	Members []memberAddress `json:"members"`
	Roll    int             `json:"roll,omitempty"` // the number of the last change that restarts all members
	Upgrade *groupUpgrade   `json:"upgrade,omitempty"`
}

// memberAddress is where a member listens, as recorded for a single server in its state.
type memberAddress struct {
	Host      string `json:"host,omitempty"`
	Port      int    `json:"port,omitempty"`
	AdminHost string `json:"admin_host,omitempty"`
	AdminPort int    `json:"admin_port,omitempty"`
}

// The port of a member for the protocol of the group.
const (
	groupPort     = 33061
	groupPortName = "group"
)

// of returns a member of a group, counted from 1; of(0) is the group.
func (s *server) of(n int) *server {
	m := *s
	m.member = n
	return &m
}

// members returns all members of a group; none of a single server.
func (s *server) members() (all []*server) {
	if s.state.Group == nil {
		return nil
	}
	for n := range s.state.Group.Members {
		all = append(all, s.of(n+1))
	}
	return all
}

// Groups implements launcher.Grouper.
func (l *Launcher) Groups(flavour, version string) error {
	v, found := launcher.Newest(l.Versions(), flavour, version)
	if !found {
		return fmt.Errorf("it has no servers of %s", launcher.Version{Flavour: flavour, Version: version})
	}
	return l.runsGroups(v)
}

// runsGroups returns an error if servers of a version cannot be members of a group.
func (l *Launcher) runsGroups(v launcher.Version) error {
	if v.Flavour == mysqld.MariaDB {
		return fmt.Errorf("it runs groups of MySQL, and has %s: for MariaDB, list the hosts of a Galera cluster as one "+
			"shared server in MYSQL_SERVERS, and offer that by a shared plan", v)
	}
	if launcher.CompareVersions(v.Version, "8.4") < 0 {
		return fmt.Errorf("it runs groups of MySQL 8.4 or later, and has %s", v)
	}
	if l.cfg.Service == LoadBalancer {
		return errors.New("it runs no groups behind load balancers: set " + l.cfg.variable("LAUNCHER_SERVICE"))
	}
	return nil
}

// governor is the Service that gives pods their names.
func (s *server) governor() string {
	if s.member == 0 {
		return s.workName()
	}
	return s.name + "-group"
}

// selector selects the pods of a server, or that of a member.
func (s *server) selector() map[string]string {
	all := map[string]string{serverLabel: s.id}
	if s.member > 0 {
		all[memberLabel] = strconv.Itoa(s.member)
	}
	return all
}

func (s *server) settingsFile() string {
	if s.member == 0 {
		return settingsFile
	}
	return fmt.Sprintf("my-%d.cnf", s.member)
}

func (s *server) ports() []api.ContainerPort {
	all := []api.ContainerPort{{Name: portName, ContainerPort: port}}
	if s.member > 0 {
		all = append(all, api.ContainerPort{Name: groupPortName, ContainerPort: groupPort})
	}
	return all
}

// groupAffinity keeps the members of a group on different nodes.
func (s *server) groupAffinity() *api.Affinity {
	if s.member == 0 {
		return nil
	}
	others := api.PodAffinityTerm{TopologyKey: "kubernetes.io/hostname",
		LabelSelector: api.LabelSelector{MatchLabels: s.of(0).selector()}}
	return &api.Affinity{PodAntiAffinity: api.PodAntiAffinity{Required: []api.PodAffinityTerm{others}}}
}

// memberHost is the name by which the other members reach one.
func (l *Launcher) memberHost(m *server) string {
	return m.podName() + "." + m.governor() + "." + l.cfg.Namespace + ".svc"
}

// membersOf returns what each member of a group knows.
func (l *Launcher) membersOf(s *server) mysqld.Group {
	g := mysqld.Group{Name: s.state.Group.Name}
	for _, m := range s.members() {
		host := l.memberHost(m)
		g.Hosts = append(g.Hosts, host)
		g.Addresses = append(g.Addresses, net.JoinHostPort(host, strconv.Itoa(port)))
		g.Protocol = append(g.Protocol, net.JoinHostPort(host, strconv.Itoa(groupPort)))
	}
	return g
}

// groupPassword returns the password of mysqld.GroupUser, which is derived from the key of the certificate: whoever can
// read that does not need it.
func (s *server) groupPassword() (string, error) {
	key := s.secret.Data[keyFile]
	if len(key) == 0 {
		return "", fmt.Errorf("server %s: it has no key", s.id)
	}
	sum := hmac.New(sha256.New, key)
	sum.Write([]byte("password of " + mysqld.GroupUser))
	return hex.EncodeToString(sum.Sum(nil)[:16]), nil // CHANGE REPLICATION SOURCE takes 32 characters
}

// address is where a server or a member listens.
func (s *server) address() memberAddress {
	if s.member > 0 {
		return s.state.Group.Members[s.member-1]
	}
	return memberAddress{s.state.Host, s.state.Port, s.state.AdminHost, s.state.AdminPort}
}

// at is where applications reach a member, as host:port.
func (s *server) at() string {
	return net.JoinHostPort(s.address().Host, strconv.Itoa(s.address().Port))
}

// ownEndpoint is that of a single server, or of one member.
func (s *server) ownEndpoint() launcher.Endpoint {
	a := s.address()
	return launcher.Endpoint{Host: a.Host, Port: a.Port, CACertificate: s.secret.Data[caFile], AdminHost: a.AdminHost,
		AdminPort: a.AdminPort}
}

// groupEndpoint is that of a group: the address that leads to the primary, and those of all members.
func (s *server) groupEndpoint() launcher.Endpoint {
	e := s.of(0).ownEndpoint()
	for _, m := range s.members() {
		e.Members = append(e.Members, m.at())
	}
	return e
}

// endpoints are those of each mysqld of a server.
func (s *server) endpoints() (all []launcher.Endpoint) {
	for _, m := range s.members() {
		all = append(all, m.ownEndpoint())
	}
	if all == nil {
		all = append(all, s.ownEndpoint())
	}
	return all
}
