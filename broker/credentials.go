package broker

import (
	"cmp"
	"encoding/json"
	"encoding/pem"
	"net"
	"net/url"
	"strconv"
	"strings"

	"mysql-broker/provisioner/bindings"
)

// credentials are what an application finds in VCAP_SERVICES. Some values have several names, because drivers,
// buildpacks and frameworks look for different ones: Steeltoe for sslRootCert, Spring on Kubernetes for jdbc-url,
// java-cfenv for jdbcUrl. Names are never changed or removed.
type credentials struct {
	URI            string   `json:"uri"`
	JDBCURL        string   `json:"jdbcUrl"`
	JDBCURLSpring  string   `json:"jdbc-url"`
	JDBCURLMariaDB string   `json:"mariadbJdbcUrl,omitempty"`
	Host           string   `json:"host"`
	Hostname       string   `json:"hostname"`
	Port           int      `json:"port"`
	Hosts          []string `json:"hosts,omitempty"` // host:port of all nodes of a cluster
	Database       string   `json:"database"`
	Name           string   `json:"name"`
	Username       string   `json:"username"`
	Password       string   `json:"password"`
	TLS            bool     `json:"tls,omitempty"`
	CACertificate  string   `json:"ca_certificate,omitempty"` // PEM
	SSLRootCert    string   `json:"sslRootCert,omitempty"`    // the same
	Type           string   `json:"type"`                     // mysql for both flavours: it is the protocol
	Provider       string   `json:"provider"`
}

// The Service Binding Specification for Kubernetes requires these in every binding.
// https://servicebinding.io/spec/core/1.1.0/#well-known-secret-entries
const (
	bindingType     = "mysql"
	bindingProvider = "mysql-broker"
)

// credentials returns what the platform gets: the credentials, or where CredHub has them. Cloud Foundry's platform
// replaces such a reference by what it refers to when an application starts.
// https://github.com/cloudfoundry/credhub/blob/main/docs/secure-service-credentials.md
func (b *Broker) credentials(c bindings.Credentials) any {
	if c.Reference != "" {
		return map[string]string{"credhub-ref": c.Reference}
	}
	return credentialsOf(c, b.caTrusted)
}

// Document returns the credentials as CredHub keeps them. caTrusted is that of New.
func Document(caTrusted bool) func(bindings.Credentials) map[string]any {
	return func(c bindings.Credentials) map[string]any {
		raw, _ := json.Marshal(credentialsOf(c, caTrusted)) // strings, numbers and booleans cannot fail
		var document map[string]any
		_ = json.Unmarshal(raw, &document)
		return document
	}
}

func credentialsOf(c bindings.Credentials, caTrusted bool) credentials {
	jdbc := jdbcURL(c, caTrusted)
	return credentials{URI: uri(c), JDBCURL: jdbc, JDBCURLSpring: jdbc, JDBCURLMariaDB: mariaDBURL(c),
		Host: c.Host, Hostname: c.Host, Port: c.Port, Hosts: c.Hosts, Database: c.Database, Name: c.Database,
		Username: c.Account, Password: c.Password, TLS: hasTLS(c),
		CACertificate: string(c.CACertificate), SSLRootCert: string(c.CACertificate),
		Type: bindingType, Provider: bindingProvider}
}

// hasTLS reports whether the server is known to offer TLS.
func hasTLS(c bindings.Credentials) bool { return c.CACertificate != nil || c.TLSOnly }

func address(c bindings.Credentials) string { return net.JoinHostPort(c.Host, strconv.Itoa(c.Port)) }

// addresses lists all nodes of a cluster, for drivers that take a list: they try them in this order.
func addresses(c bindings.Credentials) string {
	return cmp.Or(strings.Join(c.Hosts, ","), address(c))
}

// uri has options only if clients cannot connect without them, because each driver has its own options and many refuse
// unknown ones. The options are, in this order, for Node's mysql2, for MySQL's client and many others, and for Rails.
func uri(c bindings.Credentials) string {
	u := url.URL{Scheme: "mysql", User: url.UserPassword(c.Account, c.Password), Host: address(c), Path: "/" + c.Database}
	if c.TLSOnly {
		ssl := strings.ReplaceAll(url.QueryEscape(nodeTLS(c)), "+", "%20") // not every client takes + for a space
		u.RawQuery = "ssl=" + ssl + "&ssl-mode=REQUIRED&sslverify=true"
	}
	return u.String()
}

// nodeTLS is the option ssl of Node's mysql2. https://sidorares.github.io/node-mysql2/docs/documentation/ssl
func nodeTLS(c bindings.Credentials) string {
	options := map[string]any{"rejectUnauthorized": false}
	if c.CACertificate != nil {
		options = map[string]any{"ca": string(c.CACertificate), "verifyIdentity": true}
	}
	text, _ := json.Marshal(options) // strings and booleans cannot fail
	return string(text)
}

// jdbcURL is a URL that MySQL's Connector/J and MariaDB's, 2.7 and 3, all accept. They encrypt the connection, but
// verify the server only if they already trust its CA: Connector/J reads a CA only from a file, and refuses the text
// from which MariaDB's drivers read it.
//
// sslMode is for Connector/J and MariaDB's driver 3, and useSSL with trustServerCertificate for 2.7. permitMysqlScheme
// makes 3 accept the scheme. Without TLS, a first login to MySQL needs allowPublicKeyRetrieval.
// https://dev.mysql.com/doc/connector-j/en/connector-j-connp-props-security.html
// https://mariadb.com/docs/connectors/mariadb-connector-j/about-mariadb-connector-j
func jdbcURL(c bindings.Credentials, caTrusted bool) string {
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
	if c.Hosts != nil {
		options.Set("failOverReadOnly", "false") // Connector/J would not write to the second host
	}
	u := url.URL{Scheme: "jdbc:mysql", Host: addresses(c), Path: "/" + c.Database, RawQuery: options.Encode()}
	return u.String()
}

// mariaDBURL makes MariaDB's drivers verify the server. It is "" if the server's CA is not known. The drivers read
// options without unescaping, so the CA keeps its line ends. Names and passwords contain no special characters.
func mariaDBURL(c bindings.Credentials) string {
	if c.CACertificate == nil {
		return ""
	}
	return "jdbc:mariadb://" + addresses(c) + "/" + c.Database + "?user=" + c.Account + "&password=" + c.Password +
		"&useSSL=true&sslMode=verify-full&serverSslCert=" + certificates(c.CACertificate)
}

// certificates returns only the PEM blocks, without any text around them.
func certificates(text []byte) string {
	var all strings.Builder
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		all.Write(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes}))
	}
	return all.String()
}
