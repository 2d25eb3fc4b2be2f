package config_test

import (
	"fmt"
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
