package mysqladmin_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
)

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
			if failed := strings.Contains(text, "no-such-charset"); failed != (s.Status.Code == codes.Error) ||
				failed && s.Status.Description != "MySQL error 1115 (42000)" {
				t.Errorf("status %v: %s", s.Status, text)
			}
		}
		if statements < 3 { // CREATE USER, GRANT, CREATE DATABASE
			t.Errorf("%d statements were traced", statements)
		}
	})
}
