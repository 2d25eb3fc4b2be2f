// Package httpapi serves a Broker over HTTP as the Open Service Broker API.
//
// The brokerapi module decodes requests and encodes responses. A chain of middleware around it, with one file for each,
// adds what the specification requires and the module lacks: every response is one JSON object with the request's
// identity, malformed requests get a 400 with a sentence, and clients see nothing internal.
package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"code.cloudfoundry.org/brokerapi/v13/handlers"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
)

// Config is what New needs besides the broker.
type Config struct {
	// Credentials are the accepted basic-auth pairs, at least one. With two, an operator can rotate them without refusing
	// requests.
	Credentials []Credential
	// Proxies are trusted to name the source of a failed login. Default: X-Forwarded-For is ignored.
	Proxies Proxies
	// Logger gets one line for each request, and the full text of unexpected errors.
	Logger *slog.Logger
	// Registerer gets the request metrics.
	Registerer prometheus.Registerer
	// Tracer creates a span for each request. Default: none.
	Tracer trace.Tracer
}

// Credential is one basic-auth user name and password.
type Credential struct {
	Username string
	Password string
}

// New returns the handler of every path below /v2/; other paths get a 404. It fails if the credentials would admit
// anyone, or nobody, if the metrics are already registered, or if the broker has no catalog.
//
// Do not mount it in a http.ServeMux, which responds to paths such as /v2//catalog with a redirect that is not JSON.
// Compare the few other paths exactly and pass the rest to this handler.
func New(b Broker, cfg Config) (http.Handler, error) {
	if err := checkCredentials(cfg.Credentials); err != nil {
		return nil, err
	}
	m, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, fmt.Errorf("register HTTP metrics: %w", err)
	}
	log := cfg.Logger
	// brokerapi logs every refusal as an error, some with whole requests and credentials. The request's own line and
	// adapter's log are sufficient.
	library := handlers.NewApiHandler(adapter{broker: b, log: log}, slog.New(slog.DiscardHandler))
	catalog, err := encodeCatalog(library, b.Rotatable)
	if err != nil {
		return nil, err
	}
	inner := chain(newRouter(library, catalog), observe(log, m), recoverPanics(log), respondInJSON,
		authenticate(cfg.Credentials, cfg.Proxies, log, m.failedLogins), checkVersion)
	if cfg.Tracer != nil {
		inner = chain(inner, traced(cfg.Tracer))
	}
	return chain(inner, identify), nil
}

// middleware handles a request, or passes it to next.
type middleware func(w http.ResponseWriter, r *http.Request, next http.Handler)

// chain wraps h so that the first middleware is the outermost.
func chain(h http.Handler, outermostFirst ...middleware) http.Handler {
	for _, m := range slices.Backward(outermostFirst) {
		next := h
		h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m(w, r, next) })
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
		// RFC 7617 section 2: the user name ends at the first colon.
		if strings.Contains(c.Username, ":") {
			return errors.New("a configured user name contains a colon, so that no request could ever match it")
		}
	}
	return nil
}
