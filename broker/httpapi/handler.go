// Package httpapi puts a Broker on the wire as the Open Service Broker API.
//
// The brokerapi module decodes requests and encodes answers. Around it stands one chain of middleware, each in the
// file named for it, which holds what the specification asks for and the module does not give: every answer is one
// JSON object with the request's identity, malformed requests are a 400 with a sentence, and nothing internal
// reaches a client.
package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"code.cloudfoundry.org/brokerapi/v13/handlers"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
)

// Config is what New needs besides the broker.
type Config struct {
	// Credentials are the basic-auth pairs that are let in, at least one. Two at once let an operator rotate them
	// without refusing a request.
	Credentials []Credential
	// Proxies tell how to find out where a failed login comes from. Default: X-Forwarded-For is not believed.
	Proxies Proxies
	// Logger gets one line a request, and the full text of unexpected errors. Default: slog.Default().
	Logger *slog.Logger
	// Registerer gets the request metrics. Default: they are not registered.
	Registerer prometheus.Registerer
	// Tracer makes each request a span. Default: none.
	Tracer trace.Tracer
}

// Credential is one basic-auth user name and password.
type Credential struct {
	Username string
	Password string
}

// New returns the handler of every path below /v2/; it answers 404 for all others. It fails if the credentials could
// let anyone in, or nobody, if the metrics are already registered, and if the broker has no catalog: it is asked for
// that once, here.
//
// Do not mount it in a http.ServeMux, which answers paths such as /v2//catalog itself, with a redirect that is not
// JSON: compare the few other paths exactly and give the rest to this handler.
func New(b Broker, cfg Config) (http.Handler, error) {
	if err := checkCredentials(cfg.Credentials); err != nil {
		return nil, err
	}
	m, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, fmt.Errorf("register HTTP metrics: %w", err)
	}
	log := cfg.Logger
	if log == nil {
		log = slog.Default()
	}

	// brokerapi logs every refusal as an error, and whole requests and credentials with some; the request's own
	// line and the log of adapter say all that is to be said.
	library := handlers.NewApiHandler(adapter{broker: b, log: log}, slog.New(slog.DiscardHandler))
	catalog, err := encodeCatalog(library)
	if err != nil {
		return nil, err
	}
	span := func(next http.Handler) http.Handler { return next }
	if cfg.Tracer != nil {
		span = traced(cfg.Tracer)
	}
	return chain(newRouter(library, catalog),
		identify,
		span,
		observe(log, m),
		recoverPanics(log),
		answerInJSON,
		authenticate(cfg.Credentials, cfg.Proxies, log, m.failedLogins),
		checkVersion,
	), nil
}

type middleware func(http.Handler) http.Handler

// chain wraps h so that the first middleware is the outermost.
func chain(h http.Handler, outermostFirst ...middleware) http.Handler {
	for i := len(outermostFirst) - 1; i >= 0; i-- {
		h = outermostFirst[i](h)
	}
	return h
}

func checkCredentials(credentials []Credential) error {
	if len(credentials) == 0 {
		return errors.New("no credentials configured: anyone could use the broker")
	}
	for _, c := range credentials {
		if c.Username == "" || c.Password == "" {
			return errors.New("a configured credential has an empty user name or password")
		}
		// RFC 7617 section 2: the first colon ends the user name.
		if strings.Contains(c.Username, ":") {
			return errors.New("a configured user name contains a colon, so that no request could ever match it")
		}
	}
	return nil
}
