package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// TLS names the files to serve HTTPS with; both are empty for HTTP.
type TLS struct {
	CertificateFile string
	KeyFile         string
}

// Load reads the files. No error quotes the key.
func (t TLS) Load() (tls.Certificate, error) {
	return tls.LoadX509KeyPair(t.CertificateFile, t.KeyFile)
}

func (r *reader) tls() TLS {
	t := TLS{CertificateFile: r.value("TLS_CERTIFICATE"), KeyFile: r.value("TLS_KEY")}
	switch {
	case t == TLS{}:
		return t
	case t.CertificateFile == "":
		r.note(errors.New("TLS_KEY is set, but TLS_CERTIFICATE is not"))
		return t
	case t.KeyFile == "":
		r.note(errors.New("TLS_CERTIFICATE is set, but TLS_KEY is not"))
		return t
	}
	_, err := t.Load()
	r.note(prefixed("TLS_CERTIFICATE and TLS_KEY", err))
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
			r.note(fmt.Errorf("%s: %q is neither an IP address nor a network such as 10.0.0.0/8", name, entry))
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

// loopback reads an address and port that only this host can reach, "" if it is not set.
func (r *reader) loopback(name string) string {
	text := r.value(name)
	if text == "" {
		return ""
	}
	address, err := netip.ParseAddrPort(text)
	if err != nil || !address.Addr().IsLoopback() {
		r.note(fmt.Errorf("%s is not a loopback address with a port, such as 127.0.0.1:6060", name))
	}
	return text
}
