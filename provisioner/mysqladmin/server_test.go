package mysqladmin_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestUnreachable(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and never answers
	require.NoError(t, err)
	defer func() { _ = silent.Close() }()
	for what, addr := range map[string]string{"no listener": fmt.Sprintf("127.0.0.1:%d", testdrive.FreePort(t)),
		"no answer": silent.Addr().String()} {
		server, err := mysqladmin.Open(mysqladmin.Config{Name: "s1", Addr: addr, User: "u", Password: "secret-word"})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		err = server.Ping(ctx)
		cancel()
		assert.True(t, mysqladmin.Unreachable(err) && strings.Contains(err.Error(), "s1") &&
			!strings.Contains(err.Error(), "secret-word"), "%s: %v", what, err)
		assert.NoError(t, server.Close())
	}
}

func TestRefusalsAreNotOutages(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		assert.False(t, mysqladmin.Unreachable(nil) || mysqladmin.Unreachable(context.Canceled),
			"nil or a cancelled context counts as unreachable")
		err := f.checkLogin("nobody", "wrong")
		assert.False(t, err == nil || mysqladmin.Unreachable(err), "a refused login: %v", err)
		err = f.session.Databases.Create(t.Context(), f.database, "utf8mb4", "latin1_bin")
		assert.False(t, err == nil || mysqladmin.Unreachable(err), "a refused statement: %v", err)
	})
}

func TestConfigFromURI(t *testing.T) {
	t.Parallel()
	cases := map[string]mysqladmin.Config{
		"mysql://u:p%40%2Fw@db.example:3307/": {Addr: "db.example:3307", User: "u", Password: "p@/w"},
		"mysql://u:p@db.example":              {Addr: "db.example:3306", User: "u", Password: "p"},
		"mysql://u:p@[::1]:3307/ignored":      {Addr: "[::1]:3307", User: "u", Password: "p"},
		"mysql://u:p@a.example,b.example:3307/": {Addr: "a.example:3306", User: "u", Password: "p",
			Nodes: []string{"a.example:3306", "b.example:3307"}},
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
		"mysql://u:secret@h/?tls=true", "u:secret@tcp(h:1)/",
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
			got, err := f.open(cfg).Setup.Transport(t.Context())
			assert.True(t, err == nil && got == want, "%+v (%v), want %+v", got, err, want)
		}
	})
}

// A node of Group Replication that was started, and has not joined its group yet, accepts writes. The broker writes
// nothing there: the node could not join then.
func TestNodeThatHasNotJoinedItsGroup(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		if s.Flavour != "mysql" {
			return
		}
		f := newFixture(t, testdrive.PrivateWith(t, s.Flavour, "gtid_mode=ON", "enforce_gtid_consistency=ON",
			"plugin_load_add=group_replication.so", "loose_group_replication_start_on_boot=OFF",
			"loose_group_replication_group_name=9a2f5c1e-6c0d-4b53-8f5e-3f0d6a1b7c42"))
		f.exec(f.root, "GRANT SELECT ON performance_schema.* TO "+f.config.User)
		f.config.Nodes = []string{f.config.Addr}
		node := f.open(f.config)
		err := node.Ping(t.Context())
		assert.True(t, mysqladmin.CannotReach(err), "a connection that may write: %v", err)
	})
}

// Spans of statements contain neither arguments nor the server's error messages.
func TestSpansHoldNoArguments(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		recorded := tracetest.NewInMemoryExporter()
		provider := trace.NewTracerProvider(trace.WithSyncer(recorded))
		ctx, span := provider.Tracer("test").Start(t.Context(), "parent")
		account := mysqladmin.Account{Name: uniqueName("u_"), Password: "correct-horse-battery", Database: f.database,
			Role: plan.ReadWrite}
		f.must(f.session.Accounts.Create(ctx, account))
		assert.Error(t, f.session.Databases.Create(ctx, f.database+"x", "no-such-charset", ""),
			"there is such a character set")
		span.End()
		statements := 0
		for _, s := range recorded.GetSpans() {
			text := fmt.Sprint(s.Name, s.Attributes, s.Status, s.Events)
			for _, argument := range []string{account.Password, account.Name, "$A$", "Unknown character set"} {
				assert.False(t, strings.Contains(text, argument), "the span holds %q: %s", argument, text)
			}
			if s.Parent.SpanID() == span.SpanContext().SpanID() {
				statements++
			}
			failed := strings.Contains(text, "no-such-charset")
			assert.True(t, failed == (s.Status.Code == codes.Error) &&
				(!failed || s.Status.Description == "MySQL error 1115 (42000)"), "status %v: %s", s.Status, text)
		}
		assert.GreaterOrEqual(t, statements, 3, "traced statements, such as CREATE USER, GRANT and CREATE DATABASE")
	})
}

// TestCanTake is about copies, moves and restores: none crosses flavours, whatever the versions, nor goes back to an
// older series.
func TestCanTake(t *testing.T) {
	for _, one := range []struct {
		to, of mysqladmin.Flavour
		can    bool
	}{
		{mysqladmin.Flavour{Name: "MySQL", Version: "8.4.3"}, mysqladmin.Flavour{Name: "MySQL", Version: "8.4.9"}, true},
		{mysqladmin.Flavour{Name: "MySQL", Version: "9.7.4-2"}, mysqladmin.Flavour{Name: "MySQL", Version: "8.4.9"}, true},
		{mysqladmin.Flavour{Name: "MySQL", Version: "8.4.9"}, mysqladmin.Flavour{Name: "MySQL", Version: "9.0.1"}, false},
		{mysqladmin.Flavour{Name: "MariaDB", Version: "10.6.20-MariaDB"}, mysqladmin.Flavour{Name: "MariaDB", Version: "10.11.2-MariaDB"}, false},
		{mysqladmin.Flavour{Name: "MySQL", Version: "9.7.4-2"}, mysqladmin.Flavour{Name: "MariaDB", Version: "10.11.2-MariaDB"}, false},
		{mysqladmin.Flavour{Name: "MySQL", Version: "9.7.4-2"}, mysqladmin.Flavour{Name: "MariaDB", Version: "9.7.4-MariaDB"}, false},
		{mysqladmin.Flavour{Name: "MariaDB", Version: "11.8.3-MariaDB"}, mysqladmin.Flavour{Name: "MySQL", Version: "8.0.36"}, false},
	} {
		assert.Equal(t, one.can, one.to.CanTake(one.of), "%s can take what %s", one.to, one.of)
	}
}
