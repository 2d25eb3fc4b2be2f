package mysqladmin_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/mysqladmin"
)

func TestACAIsNeverPassedOver(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		plain := withoutTLS(t, f.config.Addr)
		for what, cfg := range map[string]mysqladmin.Config{
			"another CA":            {Addr: f.config.Addr, CA: foreignCA(t)},
			"another host name":     {Addr: proxy(t, "127.0.0.2:0", f.config.Addr, nil), CA: f.config.CA},
			"a server without TLS":  {Addr: plain, CA: f.config.CA},
			"none of these, but CA": {Addr: proxy(t, "127.0.0.1:0", f.config.Addr, nil), CA: f.config.CA},
			"no CA to go by":        {Addr: plain},
			"the server's own name, at another address": {Addr: proxy(t, "127.0.0.2:0", f.config.Addr, nil),
				CA: f.config.CA, ServerName: "127.0.0.1"},
			"another name, at the server's address": {Addr: f.config.Addr, CA: f.config.CA, ServerName: "127.0.0.2"},
		} {
			cfg.User, cfg.Password = f.config.User, f.config.Password
			err := mysqladmin.CheckLogin(t.Context(), cfg, "")
			switch what {
			case "none of these, but CA", "no CA to go by", "the server's own name, at another address": // which prove that the proxies are not what is refused
				assert.NoError(t, err, what)
			default:
				assert.False(t, err == nil || mysqladmin.Unreachable(err) || number(err) != 0, "%s: %v", what, err)
			}
		}
	})
}

func TestTransport(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		for addr, want := range map[string]mysqladmin.Transport{f.config.Addr: {TLS: true}, withoutTLS(t, f.config.Addr): {}} {
			cfg := f.config
			cfg.Addr, cfg.CA = addr, nil
			server, err := mysqladmin.Open(cfg)
			f.must(err)
			got, err := server.Setup.Transport(t.Context())
			assert.True(t, err == nil && got == want, "%+v (%v), want %+v", got, err, want)
			f.must(server.Close())
		}
	})
}

// withoutTLS returns the address of a proxy that removes the offer of TLS from the server's greeting.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_handshake_v10.html
func withoutTLS(t *testing.T, addr string) string {
	t.Helper()
	return proxy(t, "127.0.0.1:0", addr, func(greeting []byte) {
		const header, clientSSL = 4, 0x0800
		version := header + 1
		for greeting[version] != 0 {
			version++
		}
		capabilities := version + 1 + 4 + 8 + 1 // behind the thread's id, a part of the salt and a filler
		greeting[capabilities+1] &^= clientSSL >> 8
	})
}

// proxy listens at an address and passes on what it gets, until the test ends. alter changes the server's first packet.
func proxy(t *testing.T, listen, addr string, alter func(greeting []byte)) string {
	t.Helper()
	l, err := net.Listen("tcp", listen)
	require.NoError(t, err)
	var connections sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		connections.Wait()
	})
	connections.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			connections.Go(func() { passOn(client, addr, alter) })
		}
	})
	return l.Addr().String()
}

// passOn ends when either side closes its connection. Errors show on the client's side.
func passOn(client net.Conn, addr string, alter func([]byte)) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	greeting := make([]byte, 1024)
	n, err := server.Read(greeting)
	if err != nil {
		return
	}
	if alter != nil {
		alter(greeting[:n])
	}
	if _, err := client.Write(greeting[:n]); err != nil {
		return
	}
	var upstream sync.WaitGroup
	upstream.Go(func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	})
	_, _ = io.Copy(client, server)
	_ = client.Close()
	upstream.Wait()
}

// foreignCA returns a CA, in PEM, that has signed no server's certificate.
func foreignCA(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
