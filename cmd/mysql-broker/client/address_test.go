package client

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAddress(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := `{"url":"http://127.0.0.1:9999","username":"dev","password":"secret"}`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "client.json"), []byte(file), 0o600))
	broken := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(broken, "client.json"), 0o700))
	tests := map[string]struct {
		flags options
		env   map[string]string
		want  address
	}{
		"nothing said": {want: address{URL: defaultURL}},
		"development broker": {
			env:  map[string]string{"MYSQL_BROKER_DEV_DIR": dir},
			want: address{URL: "http://127.0.0.1:9999", Username: "dev", Password: "secret"},
		},
		"its URL said too": {
			flags: options{url: "http://127.0.0.1:9999/"},
			env:   map[string]string{"MYSQL_BROKER_DEV_DIR": dir},
			want:  address{URL: "http://127.0.0.1:9999", Username: "dev", Password: "secret"},
		},
		"another URL does not get its password": {
			env:  map[string]string{"MYSQL_BROKER_DEV_DIR": dir, "BROKER_URL": "https://elsewhere"},
			want: address{URL: "https://elsewhere"},
		},
		"its URL does not get another password": {
			env:  map[string]string{"MYSQL_BROKER_DEV_DIR": dir, "BROKER_USERNAME": "v", "BROKER_PASSWORD": "w"},
			want: address{URL: defaultURL, Username: "v", Password: "w"},
		},
		"flags win": {
			flags: options{url: "https://a", username: "u"},
			env:   map[string]string{"BROKER_URL": "https://b", "BROKER_USERNAME": "v", "BROKER_PASSWORD": "w"},
			want:  address{URL: "https://a", Username: "u", Password: "w"},
		},
		"all said, and the development broker's file unreadable": {
			env: map[string]string{"BROKER_URL": "https://b", "BROKER_USERNAME": "v", "BROKER_PASSWORD": "w",
				"MYSQL_BROKER_DEV_DIR": broken},
			want: address{URL: "https://b", Username: "v", Password: "w"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := map[string]string{"MYSQL_BROKER_DEV_DIR": t.TempDir()}
			for k, v := range test.env {
				env[k] = v
			}
			test.flags.getenv = func(name string) string { return env[name] }
			got, err := test.flags.address()
			require.NoError(t, err)
			assert.True(t, got == test.want, "got %+v, want %+v", got, test.want)
		})
	}
}
