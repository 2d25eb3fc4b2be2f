package kubernetes_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
)

// A webhook that cannot be tried may well allow what it is asked: a suspension is carried out, a plan counts as possible,
// and the error of a removal that cannot end does not name the webhook.
func TestWebhookThatCannotBeTried(t *testing.T) {
	t.Parallel()
	p := newObjects(t)
	spec := p.readyServer(t, p.open(t))
	claim := p.kindsOf(spec)["claim"]
	p.hold(t, claim, "test.example.com/stays")
	l := p.behind(t, func(w http.ResponseWriter, r *http.Request, pass http.HandlerFunc) {
		body, err := io.ReadAll(r.Body)
		if err == nil && (r.URL.Query().Has("dryRun") || bytes.Contains(body, []byte("dryRun"))) {
			refuse(w, http.StatusBadRequest, "BadRequest", "admission webhook does not support dry run")
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		pass(w, r)
	}).open(t)
	require.NoError(t, l.(launcher.Checker).Try(t.Context(), spec))
	do(t, suspending(l, spec))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	err := l.Destroy(ctx, spec.ID)
	require.ErrorContains(t, err, "(held by test.example.com/stays)")
	assert.NotContains(t, err.Error(), "dry run")
	p.hold(t, claim)
	p.remove(t, l, spec)
}
