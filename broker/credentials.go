package broker

import (
	"encoding/json"
	"encoding/pem"
	"net"
	"net/url"
	"strconv"
	"strings"

	"mysql-broker/provisioner"
)

// credentials are what an application finds in VCAP_SERVICES. Some facts stand there under several names, since
// drivers, buildpacks and frameworks each look for their own: Steeltoe for sslRootCert, Spring on Kubernetes for
// jdbc-url, java-cfenv for jdbcUrl. Names are never changed or taken away.
type credentials struct {
	URI            string `json:"uri"`
	JDBCURL        string `json:"jdbcUrl"`
	JDBCURLSpring  string `json:"jdbc-url"`
	JDBCURLMariaDB string `json:"mariadbJdbcUrl,omitempty"`
	Host           string `json:"host"`
	Hostname       string `json:"hostname"`
	Port           int    `json:"port"`
	Database       string `json:"database"`
	Name           string `json:"name"`
	Username       string `json:"username"`
	Password       string `json:"password"`
	TLS            bool   `json:"tls,omitempty"`
	CACertificate  string `json:"ca_certificate,omitempty"` // PEM
	SSLRootCert    string `json:"sslRootCert,omitempty"`    // the same
	Type           string `json:"type"`                     // for both flavours: it is the protocol
	Provider       string `json:"provider"`
}

// What the Service Binding Specification for Kubernetes has in every binding.
// https://servicebinding.io/spec/core/1.1.0/#well-known-secret-entries
const (
	bindingType     = "mysql"
	bindingProvider = "mysql-broker"
)

func (b *Broker) credentials(c provisioner.Credentials) credentials {
	jdbc := jdbcURL(c, b.caTrusted)
	return credentials{URI: uri(c), JDBCURL: jdbc, JDBCURLSpring: jdbc, JDBCURLMariaDB: mariaDBURL(c),
		Host: c.Host, Hostname: c.Host, Port: c.Port, Database: c.Database, Name: c.Database,
		Username: c.Account, Password: c.Password, TLS: hasTLS(c),
		CACertificate: string(c.CACertificate), SSLRootCert: string(c.CACertificate),
		Type: bindingType, Provider: bindingProvider}
}

// hasTLS tells whether the server is known to offer TLS.
func hasTLS(c provisioner.Credentials) bool { return c.CACertificate != nil || c.TLSOnly }

func address(c provisioner.Credentials) string { return net.JoinHostPort(c.Host, strconv.Itoa(c.Port)) }

// uri has options only where nobody can connect without them, as each driver has its own and many refuse those of
// others. The options are, in this order, those of Node's mysql2, of MySQL's own and many other clients, and of Rails.
func uri(c provisioner.Credentials) string {
	u := url.URL{Scheme: "mysql", User: url.UserPassword(c.Account, c.Password), Host: address(c), Path: "/" + c.Database}
	if c.TLSOnly {
		ssl := strings.ReplaceAll(url.QueryEscape(nodeTLS(c)), "+", "%20") // not every client takes + for a space
		u.RawQuery = "ssl=" + ssl + "&ssl-mode=REQUIRED&sslverify=true"
	}
	return u.String()
}

// nodeTLS is what Node's mysql2 takes as the option ssl. https://sidorares.github.io/node-mysql2/docs/documentation/ssl
func nodeTLS(c provisioner.Credentials) string {
	options := map[string]any{"rejectUnauthorized": false}
	if c.CACertificate != nil {
		options = map[string]any{"ca": string(c.CACertificate), "verifyIdentity": true}
	}
	text, _ := json.Marshal(options) // strings and booleans cannot fail
	return string(text)
}

// jdbcURL is one that MySQL's Connector/J and MariaDB's, 2.7 and 3, all accept. It encrypts, but none of them verifies
// the server unless they trust its CA by themselves: Connector/J reads a CA from a file only, and MariaDB's drivers
// from text that Connector/J refuses.
//
// sslMode is understood by Connector/J and by MariaDB's driver 3, useSSL with trustServerCertificate by 2.7, and
// permitMysqlScheme is what makes 3 take the scheme. Without TLS, allowPublicKeyRetrieval is needed for a first login
// to MySQL. https://dev.mysql.com/doc/connector-j/en/connector-j-connp-props-security.html
// https://mariadb.com/docs/connectors/mariadb-connector-j/about-mariadb-connector-j
func jdbcURL(c provisioner.Credentials, caTrusted bool) string {
	options := url.Values{"user": {c.Account}, "password": {c.Password}, "permitMysqlScheme": {"true"}}
	if caTrusted && c.CACertificate != nil {
		options.Set("sslMode", "VERIFY_IDENTITY")
		options.Set("useSSL", "true")
	} else if hasTLS(c) {
		options.Set("sslMode", "REQUIRED")
		options.Set("useSSL", "true")
		options.Set("trustServerCertificate", "true")
	} else {
		options.Set("allowPublicKeyRetrieval", "true")
	}
	u := url.URL{Scheme: "jdbc:mysql", Host: address(c), Path: "/" + c.Database, RawQuery: options.Encode()}
	return u.String()
}

// mariaDBURL has MariaDB's drivers verify the server, "" where nothing is known to verify it with. They take options as
// they stand, unescaped, and so the CA with its line ends: names and passwords have none of the characters that matter.
func mariaDBURL(c provisioner.Credentials) string {
	if c.CACertificate == nil {
		return ""
	}
	return "jdbc:mariadb://" + address(c) + "/" + c.Database + "?user=" + c.Account + "&password=" + c.Password +
		"&useSSL=true&sslMode=verify-full&serverSslCert=" + certificates(c.CACertificate)
}

// certificates leaves out what an operator may have written around them.
func certificates(text []byte) string {
	var all strings.Builder
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		all.Write(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes}))
	}
	return all.String()
}
