package broker

import (
	"net"
	"net/url"
	"strconv"

	"mysql-broker/provisioner"
)

// credentials are what an application finds in VCAP_SERVICES. Some facts stand there under several names, since
// drivers and buildpacks each look for their own.
type credentials struct {
	URI           string `json:"uri"`
	JDBCURL       string `json:"jdbcUrl"`
	Host          string `json:"host"`
	Hostname      string `json:"hostname"`
	Port          int    `json:"port"`
	Database      string `json:"database"`
	Name          string `json:"name"`
	Username      string `json:"username"`
	Password      string `json:"password"`
	TLS           bool   `json:"tls,omitempty"`
	CACertificate string `json:"ca_certificate,omitempty"` // PEM
}

func newCredentials(c provisioner.Credentials) credentials {
	address := net.JoinHostPort(c.Host, strconv.Itoa(c.Port))
	uri := url.URL{Scheme: "mysql", User: url.UserPassword(c.Account, c.Password), Host: address,
		Path: "/" + c.Database}
	if c.TLSOnly {
		uri.RawQuery = "ssl-mode=REQUIRED"
	}
	query := url.Values{"user": {c.Account}, "password": {c.Password}}
	if c.CACertificate != nil {
		// Connector/J's name for "encrypt or fail"; the CA has to be put into a trust store before it can verify more.
		query.Set("sslMode", "REQUIRED")
	}
	jdbc := url.URL{Scheme: "jdbc:mysql", Host: address, Path: "/" + c.Database, RawQuery: query.Encode()}
	return credentials{URI: uri.String(), JDBCURL: jdbc.String(), Host: c.Host, Hostname: c.Host, Port: c.Port,
		Database: c.Database, Name: c.Database, Username: c.Account, Password: c.Password,
		TLS: c.CACertificate != nil || c.TLSOnly, CACertificate: string(c.CACertificate)}
}
