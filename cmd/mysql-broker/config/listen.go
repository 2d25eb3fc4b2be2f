package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"os"
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
