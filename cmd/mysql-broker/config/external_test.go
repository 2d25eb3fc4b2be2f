package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestExternalURL(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ set, application, want string }{
		{"", "", ""},
		{"https://broker.example.com", "", "https://broker.example.com"},
		{"https://broker.example.com:8443/", "", "https://broker.example.com:8443"},
		{"http://127.0.0.1:8080", "", "http://127.0.0.1:8080"},
		{"http://localhost:8080", "", "http://localhost:8080"},
		{"http://[::1]:8080", "", "http://[::1]:8080"},
		{"", `{"application_uris":["broker.example.com","other.example.com"]}`, "https://broker.example.com"},
		{"", `{"application_uris":["shared.example.com/broker","broker.example.com"]}`, "https://broker.example.com"},
		{"", `{"application_uris":[]}`, ""},
		{"https://chosen.example.com", `{"application_uris":["broker.example.com"]}`, "https://chosen.example.com"},
	} {
		env := complete(t)
		env["EXTERNAL_URL"], env["VCAP_APPLICATION"] = tt.set, tt.application
		cfg, err := read(t, env)
		if err != nil {
			t.Errorf("%+v: %v", tt, err)
			continue
		}
		got := ""
		if cfg.ExternalURL != nil {
			got = cfg.ExternalURL.String()
		}
		assert.Equal(t, tt.want, got, "%+v", tt)
	}
}

func TestExternalURLThatIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"broker.example.com", "https://", "https://a.example.com/broker", "https://a?b",
		"https://a#b", "https://user:" + secret + "@a", "http://broker.example.com", "http://10.0.0.1", "ftp://a", "%"} {
		env := complete(t)
		env["EXTERNAL_URL"] = text
		_, err := read(t, env)
		assert.False(t, err == nil || !strings.Contains(err.Error(), "EXTERNAL_URL") || strings.Contains(err.Error(), secret),
			"%s: %v", text, err)
	}
}
