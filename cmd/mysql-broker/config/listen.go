package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// TLS names the files for HTTPS; both are empty for HTTP.
type TLS struct {
	CertificateFile string
	KeyFile         string
}

// Load reads the files. No error quotes the key.
func (t TLS) Load() (tls.Certificate, error) {
	certificate, key, err := t.Read()
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(certificate, key)
}

// Read reads the content of the files.
func (t TLS) Read() (certificate, key []byte, err error) {
	if certificate, err = os.ReadFile(t.CertificateFile); err != nil {
		return nil, nil, err
	}
	key, err = os.ReadFile(t.KeyFile)
	return certificate, key, err
}

func (r *reader) tls() TLS {
	t := TLS{CertificateFile: r.value("TLS_CERTIFICATE"), KeyFile: r.value("TLS_KEY")}
	switch {
	case t == TLS{}:
		return t
	case t.CertificateFile == "":
		r.fail(errors.New("TLS_KEY is set, but TLS_CERTIFICATE is not"))
		return t
	case t.KeyFile == "":
		r.fail(errors.New("TLS_CERTIFICATE is set, but TLS_KEY is not"))
		return t
	}
	_, err := t.Load()
	r.fail(prefixed("TLS_CERTIFICATE and TLS_KEY", err))
	return t
}

// listenAddress reads the host, "" for every address, and the port to listen on.
func (r *reader) listenAddress() (host string, port int) {
	port = r.port("PORT")
	text := r.value("ADDRESS")
	if text == "" {
		return "", port
	}
	host, portText, hasPort := splitAddress(text)
	if host != "" && !validHost(host) || host == "" && portText == "" {
		r.fail(fmt.Errorf("ADDRESS: %q is neither a host, such as 127.0.0.1, ::1 or localhost, nor a host with a port, such "+
			"as 127.0.0.1:8080 or [::1]:8080; set a port alone with PORT", text))
		return "", port
	}
	if !hasPort {
		return host, port
	}
	own, err := strconv.ParseUint(portText, 10, 16)
	switch {
	case err != nil:
		r.fail(fmt.Errorf("ADDRESS: %q is not a port number", portText))
	case r.getenv("PORT") != "" && int(own) != port:
		r.fail(fmt.Errorf("ADDRESS has the port %d, but PORT is %d: omit one of them", own, port))
	}
	return host, int(own)
}

// splitAddress splits host:port, [host]:port, [host] or host, which may be an IPv6 address.
func splitAddress(text string) (host, port string, hasPort bool) {
	if host, port, err := net.SplitHostPort(text); err == nil {
		return host, port, true
	}
	if inner, ok := strings.CutPrefix(text, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); ok && strings.Contains(inner, ":") {
			return inner, "", false
		}
	}
	return text, "", false
}

// hostName matches names that are valid in DNS. RFC 1123, section 2.1.
var hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$`)

// validHost reports whether a host is an IP address or a name. Text of only digits and dots must be an address.
func validHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return hostName.MatchString(host) && strings.Trim(host, "0123456789.") != ""
}

// networks reads a list such as "10.0.0.0/8, fd00::1".
func (r *reader) networks(name string) (all []netip.Prefix) {
	list := r.value(name)
	if list == "" {
		return nil
	}
	for entry := range strings.SplitSeq(list, ",") {
		entry = strings.TrimSpace(entry)
		n, err := network(entry)
		if err != nil {
			r.fail(fmt.Errorf("%s: %q is neither an IP address nor a network such as 10.0.0.0/8", name, entry))
			continue
		}
		all = append(all, n)
	}
	return all
}

func network(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return a.Unmap().Prefix(a.Unmap().BitLen())
	}
	n, err := netip.ParsePrefix(text)
	return n.Masked(), err
}

// loopback reads an address and port that only this host can reach. It returns "" if the variable is not set.
func (r *reader) loopback(name string) string {
	text := r.value(name)
	if text == "" {
		return ""
	}
	address, err := netip.ParseAddrPort(text)
	if err != nil || !address.Addr().IsLoopback() {
		r.fail(fmt.Errorf("%s is not a loopback address with a port, such as 127.0.0.1:6060", name))
	}
	return text
}
