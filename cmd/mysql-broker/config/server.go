package config

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net"
	"strconv"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/shared"
)

// server is a shared server in MYSQL_SERVERS, or in the credentials of a user-provided service.
type server struct {
	Name          string `json:"name"`
	URI           string `json:"uri"`            // mysql://admin:password@host:3306/
	CACertificate string `json:"ca_certificate"` // PEM; TLS is then required and verified
	Host          string `json:"host"`           // for applications; default: the hosts of uri
	Port          int    `json:"port"`           // for applications; default: the port of uri
	MaxDatabases  int    `json:"max_databases"`
	Exclusive     bool   `json:"exclusive"` // for one instance, of a plan that says so
}

func describedServers(text string) ([]server, error) {
	if text == "" {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.DisallowUnknownFields()
	var all []server
	if decoder.Decode(&all) != nil { // the error could quote the text, and so a password
		return nil, errors.New("is not a JSON array of objects with name, uri, ca_certificate, host, port, max_databases, " +
			"exclusive")
	}
	return all, nil
}

func (s server) config() (shared.Config, error) {
	switch {
	case s.Name == "":
		return shared.Config{}, errors.New("it has no name")
	case s.URI == "":
		return shared.Config{}, errors.New("it has no uri")
	case s.MaxDatabases < 0:
		return shared.Config{}, errors.New("max_databases is negative")
	case s.Exclusive && s.MaxDatabases > 1:
		return shared.Config{}, errors.New("it is exclusive, so that max_databases is 1: leave that out")
	}
	admin, err := mysqladmin.ConfigFromURI(s.Name, s.URI)
	if err != nil {
		return shared.Config{}, err
	}
	if s.CACertificate != "" {
		admin.CA = []byte(s.CACertificate)
		if !x509.NewCertPool().AppendCertsFromPEM(admin.CA) {
			return shared.Config{}, errors.New("its ca_certificate holds no PEM certificate")
		}
	}
	host, portText, err := net.SplitHostPort(admin.Addr)
	if err != nil {
		return shared.Config{}, errors.New("its uri has no host and port")
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return shared.Config{}, errors.New("the port of its uri is not a number")
	}
	if s.Port < 0 || s.Port > 65535 {
		return shared.Config{}, errors.New("its port is not a port number")
	}
	c := shared.Config{Admin: admin, Host: cmp.Or(s.Host, host), Port: cmp.Or(s.Port, port),
		MaxDatabases: s.MaxDatabases, Exclusive: s.Exclusive}
	if s.Host == "" && s.Port == 0 {
		c.Hosts = admin.Nodes
	}
	return c, nil
}
