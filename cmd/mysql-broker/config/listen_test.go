package config_test

import (
	"fmt"
	"strings"
	"testing"
)

func TestProxies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		application, trusted string
		want                 string
	}{
		{"", "", "{false []}"},
		{`{}`, "", "{true []}"},
		{"", "10.0.0.0/8, 192.0.2.1,fd00::1", "{false [10.0.0.0/8 192.0.2.1/32 fd00::1/128]}"},
		{`{}`, "::ffff:10.1.2.3, 10.1.2.3/8", "{true [10.1.2.3/32 10.0.0.0/8]}"},
	} {
		env := complete(t)
		env["VCAP_APPLICATION"], env["TRUSTED_PROXIES"] = c.application, c.trusted
		cfg, err := read(t, env)
		if got := fmt.Sprint(cfg.Proxies); err != nil || got != c.want {
			t.Errorf("%q %q: %s, %v, want %s", c.application, c.trusted, got, err, c.want)
		}
	}
}

func TestProfilesAreForThisHostAlone(t *testing.T) {
	t.Parallel()
	for address, good := range map[string]bool{
		"": true, "127.0.0.1:6060": true, "[::1]:0": true, "127.1.2.3:80": true,
		"0.0.0.0:6060": false, ":6060": false, "[::]:6060": false, "10.0.0.1:6060": false, "localhost:6060": false,
		"127.0.0.1": false, "127.0.0.1:http": false, "6060": false, "[::ffff:10.0.0.1]:6060": false,
	} {
		env := complete(t)
		env["PPROF_ADDRESS"] = address
		cfg, err := read(t, env)
		if good && (err != nil || cfg.Pprof != address) {
			t.Errorf("%q: %q, %v", address, cfg.Pprof, err)
		}
		if !good && (err == nil || !strings.Contains(err.Error(), "PPROF_ADDRESS is not a loopback address")) {
			t.Errorf("%q: %v", address, err)
		}
	}
}
