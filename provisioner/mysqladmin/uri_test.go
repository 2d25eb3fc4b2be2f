package mysqladmin_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/mysqladmin"
)

func TestConfigFromURI(t *testing.T) {
	t.Parallel()
	cases := map[string]mysqladmin.Config{
		"mysql://u:p%40%2Fw@db.example:3307/": {Addr: "db.example:3307", User: "u", Password: "p@/w"},
		"mysql://u:p@db.example":              {Addr: "db.example:3306", User: "u", Password: "p"},
		"mysql://u:p@[::1]:3307/ignored":      {Addr: "[::1]:3307", User: "u", Password: "p"},
		"u:p@/w?@tcp(db.example:3307)/":       {Addr: "db.example:3307", User: "u", Password: "p@/w?"},
		"mysql://u:p@a.example,b.example:3307/": {Addr: "a.example:3306", User: "u", Password: "p",
			Nodes: []string{"a.example:3306", "b.example:3307"}},
		"u:p@tcp(db.example)/": {Addr: "db.example:3306", User: "u", Password: "p"},
	}
	for uri, want := range cases {
		want.Name = "s1"
		got, err := mysqladmin.ConfigFromURI("s1", uri)
		require.NoError(t, err, uri)
		assert.Equal(t, want, got, uri)
	}
}

func TestConfigFromURIRefusesWithoutQuotingThePassword(t *testing.T) {
	t.Parallel()
	for _, uri := range []string{
		"", "secret", "mysql://u:secret%zz@h/", "postgres://u:secret@h/", "mysql://u:secret@/", "mysql://u:secret@a,,b/", "mysql://:secret@h/",
		"mysql://u:secret@h/?tls=true", "u:secret@tcp(h:1)/?tls=true", "u:secret@unix(/tmp/s)/", "u:secret@tcp(h:1",
	} {
		_, err := mysqladmin.ConfigFromURI("s1", uri)
		assert.False(t, err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "s1"),
			"%s: %v", uri, err)
	}
}

func TestOpenChecksItsConfiguration(t *testing.T) {
	t.Parallel()
	for what, cfg := range map[string]mysqladmin.Config{
		"no port":    {Name: "s1", Addr: "db.example"},
		"no real CA": {Name: "s1", Addr: "db.example:3306", CA: []byte("not PEM")},
	} {
		_, err := mysqladmin.Open(cfg)
		assert.True(t, err != nil && strings.Contains(err.Error(), "s1"), "%s: %v", what, err)
	}
}
