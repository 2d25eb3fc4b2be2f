package tracing

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Config is the destination of traces.
type Config struct {
	URL     string
	Header  http.Header   // of each request
	Timeout time.Duration // of each request
}

// FromEnvironment reads OpenTelemetry's standard variables for it. on is false if they request no traces.
// https://opentelemetry.io/docs/specs/otel/protocol/exporter/
func FromEnvironment(getenv func(string) string) (cfg Config, on bool, err error) {
	// A variable for traces takes precedence over the one for all telemetry.
	value := func(name string) string {
		return cmp.Or(getenv("OTEL_EXPORTER_OTLP_TRACES_"+name), getenv("OTEL_EXPORTER_OTLP_"+name))
	}
	exporter := getenv("OTEL_TRACES_EXPORTER")
	if getenv("OTEL_SDK_DISABLED") == "true" || exporter == "none" || exporter == "" && value("ENDPOINT") == "" {
		return cfg, false, nil
	}
	var problems []error
	if exporter != "" && exporter != "otlp" {
		problems = append(problems, errors.New("OTEL_TRACES_EXPORTER is not one of otlp, none"))
	}
	for _, fixed := range [...]struct{ name, value string }{{"PROTOCOL", "http/protobuf"}, {"COMPRESSION", "none"},
		{"CERTIFICATE", ""}, {"CLIENT_CERTIFICATE", ""}, {"CLIENT_KEY", ""}} {
		if v := value(fixed.name); v != "" && v != fixed.value {
			problems = append(problems,
				fmt.Errorf("OTEL_EXPORTER_OTLP_%s is set to what the broker cannot do; leave it out", fixed.name))
		}
	}
	cfg.URL = cmp.Or(getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
		strings.TrimSuffix(cmp.Or(getenv("OTEL_EXPORTER_OTLP_ENDPOINT"), "http://127.0.0.1:4318"), "/")+"/v1/traces")
	if u, err := url.Parse(cfg.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		problems = append(problems, errors.New("OTEL_EXPORTER_OTLP_ENDPOINT is not a URL such as http://127.0.0.1:4318"))
	}
	cfg.Timeout, err = time.ParseDuration(cmp.Or(value("TIMEOUT"), "10000") + "ms")
	if err != nil || cfg.Timeout <= 0 {
		problems = append(problems, errors.New("OTEL_EXPORTER_OTLP_TIMEOUT is not a number of milliseconds"))
	}
	cfg.Header, err = headers(value("HEADERS"))
	return cfg, true, errors.Join(append(problems, err)...)
}

// headers reads a list such as "api-key=key,other=value%20escaped". Errors do not quote it, because it may contain
// secrets.
func headers(text string) (http.Header, error) {
	all := http.Header{"Content-Type": {"application/x-protobuf"}}
	for field := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(field) == "" {
			continue
		}
		name, value, found := strings.Cut(field, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !found || err != nil {
			return nil, errors.New("OTEL_EXPORTER_OTLP_HEADERS is not a list such as api-key=key,other=value")
		}
		all.Set(strings.TrimSpace(name), value)
	}
	return all, nil
}

// client sends spans by OTLP over HTTP. It replaces otlptracehttp, which depends on gRPC and so costs 2 MB of memory
// even without tracing. https://opentelemetry.io/docs/specs/otlp/#otlphttp
type client struct {
	cfg  Config
	http *http.Client
}

// Start implements otlptrace.Client.
func (*client) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *client) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client. Spans that the collector does not accept now are lost.
func (c *client) UploadTraces(ctx context.Context, spans []*otlp.ResourceSpans) error {
	body, err := proto.Marshal(&otlp.TracesData{ResourceSpans: spans}) // as ExportTraceServiceRequest is encoded
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header = c.cfg.Header
	response, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("the collector answers %s", response.Status)
	}
	return nil
}
