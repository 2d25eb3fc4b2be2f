package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
)

// tracing tells whether the environment asks for traces to be sent. All else that OpenTelemetry's variables say, its
// SDK reads by itself. https://opentelemetry.io/docs/specs/otel/protocol/exporter/
func (r *reader) tracing() bool {
	const general, own = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	endpoint := cmp.Or(r.getenv(own), r.getenv(general))
	switch exporter := r.value("OTEL_TRACES_EXPORTER"); {
	case r.getenv("OTEL_SDK_DISABLED") == "true" || exporter == "none" || exporter == "" && endpoint == "":
		return false
	case exporter != "" && exporter != "otlp":
		r.note(errors.New("OTEL_TRACES_EXPORTER is not one of otlp, none"))
	}
	protocol := cmp.Or(r.getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), r.getenv("OTEL_EXPORTER_OTLP_PROTOCOL"))
	if protocol != "" && protocol != "http/protobuf" {
		r.note(errors.New("OTEL_EXPORTER_OTLP_PROTOCOL is not http/protobuf, the only one that the broker speaks"))
	}
	for _, name := range []string{general, own} {
		if text := r.getenv(name); text != "" && !isHTTP(text) {
			r.note(fmt.Errorf("%s is not a URL such as http://127.0.0.1:4318", name))
		}
	}
	return true
}

func isHTTP(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}
