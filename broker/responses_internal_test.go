package broker

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"code.cloudfoundry.org/brokerapi/v13/domain/apiresponses"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/broker/catalog"
	"mysql-broker/provisioner/bindings"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/store"
)

const (
	block = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	ca    = "our CA:\n" + block
)

func TestCredentials(t *testing.T) {
	t.Parallel()
	plain := bindings.Credentials{Database: "db_1", Account: "u_1", Password: "a/b+c"}
	plain.Host, plain.Port = "mysql.example.com", 3306
	verified, six, cluster, only, unverified := plain, plain, plain, plain, plain
	verified.CACertificate = []byte(ca)
	six.Host = "2001:db8::1"
	cluster.Hosts = []string{"one:3306", "two:3306"}
	only.CACertificate, only.TLSOnly = []byte(ca), true
	unverified.TLSOnly = true
	const (
		login    = "mysql://u_1:a%2Fb+c@mysql.example.com:3306/db_1"
		jdbc     = "jdbc:mysql://mysql.example.com:3306/db_1?"
		account  = "&password=a%2Fb%2Bc&permitMysqlScheme=true"
		required = account + "&sslMode=REQUIRED&trustServerCertificate=true&useSSL=true&user=u_1"
		mariadb  = "jdbc:mariadb://mysql.example.com:3306/db_1?user=u_1&password=a/b+c&useSSL=true&sslMode=verify-full&" +
			"serverSslCert=" + block
		rails = "&ssl-mode=REQUIRED&sslverify=true"
	)
	for name, test := range map[string]struct {
		c                  bindings.Credentials
		trusted            bool
		uri, jdbc, mariadb string
	}{
		"no TLS": {plain, true, login, jdbc + "allowPublicKeyRetrieval=true" + account + "&user=u_1", ""},
		"IPv6": {six, false, strings.Replace(login, "mysql.example.com", "[2001:db8::1]", 1),
			strings.Replace(jdbc, "mysql.example.com", "[2001:db8::1]", 1) + "allowPublicKeyRetrieval=true" + account + "&user=u_1", ""},
		"a CA": {verified, false, login, jdbc + required[1:], mariadb},
		"a CA that applications trust": {verified, true, login,
			jdbc + account[1:] + "&sslMode=VERIFY_IDENTITY&useSSL=true&user=u_1", mariadb},
		"TLS only": {only, false, login + "?ssl=" + nodeOptions(`{"ca":"our CA:\n`+strings.ReplaceAll(block, "\n", `\n`)+
			`","verifyIdentity":true}`) + rails, jdbc + required[1:], mariadb},
		"TLS only, and no CA": {unverified, false, login + "?ssl=" + nodeOptions(`{"rejectUnauthorized":false}`) + rails,
			jdbc + required[1:], ""},
		"a cluster": {cluster, false, login,
			strings.Replace(jdbc, "mysql.example.com:3306", "one:3306,two:3306", 1) +
				"allowPublicKeyRetrieval=true&failOverReadOnly=false" + account + "&user=u_1", ""},
	} {
		got := credentialsOf(test.c, test.trusted)
		text := string(test.c.CACertificate)
		assert.Equal(t, credentials{Host: test.c.Host, Hostname: test.c.Host, Port: 3306, Hosts: test.c.Hosts, Database: "db_1",
			Name: "db_1", Username: "u_1", Password: "a/b+c", CACertificate: text, SSLRootCert: text, Type: "mysql",
			Provider: "mysql-broker", URI: test.uri, JDBCURL: test.jdbc, JDBCURLSpring: test.jdbc, JDBCURLMariaDB: test.mariadb,
			TLS: test.c.CACertificate != nil || test.c.TLSOnly}, got, name)
	}
}

// nodeOptions escapes as the query of a URL that every client understands.
func nodeOptions(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// The platform gets no more than the reference, and CredHub what the platform would get otherwise.
func TestCredentialsInCredHub(t *testing.T) {
	t.Parallel()
	c := bindings.Credentials{Address: fleet.Address{Host: "h", Port: 1}, Password: "secret"}
	kept, err := json.Marshal(Document(true)(c))
	require.NoError(t, err)
	shown, err := json.Marshal((&Broker{caTrusted: true}).credentials(c))
	require.NoError(t, err)
	assert.JSONEq(t, string(shown), string(kept), "CredHub has something else than the platform would get")
	c.Reference = "/c/1"
	assert.Equal(t, map[string]string{"credhub-ref": "/c/1"}, (&Broker{}).credentials(c))
}

// Cloud Controller deletes what it gets a 5xx or a 422 with an unknown code for.
func TestAPIErrors(t *testing.T) {
	t.Parallel()
	refusal := func(code engine.Code) error {
		return fmt.Errorf("wrapped: %w", &engine.Error{Code: code, Sentence: "Do this.", Err: errors.New("the cause")})
	}
	for _, test := range []struct {
		err      error
		status   int
		key      string
		sentence string // "" for that of refusal
	}{
		{refusal(engine.Invalid), 400, "", ""},
		{refusal(engine.Conflict), 409, "", ""},
		{refusal(engine.NotFound), 404, "", ""},
		{refusal(engine.AlreadyDeleted), 410, "", ""},
		{refusal(engine.Busy), 422, "ConcurrencyError", ""},
		{refusal(engine.PlanChangeRefused), 422, "PlanChangeNotSupported", ""},
		{refusal(engine.TooMuchData), 422, "PlanChangeNotSupported", ""},
		{refusal(engine.TooManyBindings), 422, "BindingLimitReached", ""},
		{refusal(engine.Full), 400, "", ""},
		{refusal(engine.Unavailable), 503, "", ""},
		{refusal(engine.NeedsAsync), 422, "AsyncRequired",
			"This service plan requires client support for asynchronous service operations."},
		{fmt.Errorf("read: %w", store.ErrUnavailable), 503, "", engine.Explain(store.ErrUnavailable).Sentence},
		{fmt.Errorf("read: %w", store.ErrHeld), 503, "", engine.Explain(store.ErrHeld).Sentence},
		{fmt.Errorf("wait: %w", store.ErrLocked), 422, "ConcurrencyError", engine.Explain(store.ErrLocked).Sentence},
		{fmt.Errorf("record: %w", store.ErrText), 400, "", engine.Explain(store.ErrText).Sentence},
		{&engine.Error{Code: engine.Invalid, Sentence: "Drop view \x1b[2J\u202e."}, 400, "", `Drop view \u001b[2J\u202e.`},
		{catalog.ErrUnknownService, 400, "", "The service_id is not in the catalog."},
		{catalog.ErrUnknownPlan, 400, "", "The plan_id is not that of a plan of this service offering."},
		{fmt.Errorf("%s%w", "Parameter \"role\" is missing.", &catalog.ParameterError{}), 400, "", "Parameter \"role\" is missing."},
	} {
		err := apiError(test.err)
		var failure *apiresponses.FailureResponse
		require.ErrorAs(t, err, &failure, "%v", test.err)
		assert.Equal(t, test.status, failure.ValidatedStatusCode(nil), "%v", test.err)
		assert.Equal(t, apiresponses.ErrorResponse{Error: test.key, Description: cmp.Or(test.sentence, "Do this.")},
			failure.ErrorResponse(), "%v", test.err)
		assert.False(t, test.status > 500 && !errors.Is(err, test.err), "the log does not get the cause of %v", err)
	}
	for _, unchanged := range []error{nil, errors.New("with a secret")} {
		err := apiError(unchanged)
		assert.True(t, err == unchanged, "%v becomes %v", unchanged, err)
	}
}
