package mysqladmin_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/test/testdrive"
)

func TestACAIsNeverPassedOver(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		plain, proxy := testdrive.NewProxy(t, f.config.Addr), testdrive.NewProxy(t, f.config.Addr)
		plain.HideTLS()
		foreign, _, _ := testdrive.NewKeyPair(t, "127.0.0.1")
		named := testdrive.NewProxyAt(t, "127.0.0.2:0", f.config.Addr).Addr()
		for what, cfg := range map[string]mysqladmin.Config{
			"another CA":                                {Addr: f.config.Addr, CA: []byte(foreign)},
			"another host name":                         {Addr: named, CA: f.config.CA},
			"a server without TLS":                      {Addr: plain.Addr(), CA: f.config.CA},
			"none of these, but CA":                     {Addr: proxy.Addr(), CA: f.config.CA},
			"no CA to go by":                            {Addr: plain.Addr()},
			"the server's own name, at another address": {Addr: named, CA: f.config.CA, ServerName: "127.0.0.1"},
			"another name, at the server's address":     {Addr: f.config.Addr, CA: f.config.CA, ServerName: "127.0.0.2"},
		} {
			cfg.User, cfg.Password = f.config.User, f.config.Password
			err := mysqladmin.CheckLogin(t.Context(), cfg, "")
			switch what {
			case "none of these, but CA", "no CA to go by", "the server's own name, at another address": // which prove that the proxies are not what is refused
				assert.NoError(t, err, what)
			default:
				assert.False(t, err == nil || mysqladmin.Unreachable(err) || testdrive.ErrorNumber(err) != 0, "%s: %v", what, err)
			}
		}
	})
}

func TestTransport(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		plain := testdrive.NewProxy(t, f.config.Addr)
		plain.HideTLS()
		for addr, want := range map[string]mysqladmin.Transport{f.config.Addr: {TLS: true}, plain.Addr(): {}} {
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
