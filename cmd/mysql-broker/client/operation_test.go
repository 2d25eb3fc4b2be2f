package client

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"code.cloudfoundry.org/brokerapi/v13/domain"
	"github.com/stretchr/testify/assert"
)

type transport func() (*http.Response, error)

func (t transport) RoundTrip(*http.Request) (*http.Response, error) { return t() }

func TestAwaitGivesUpAfterLongSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const alive = time.Hour // until then the broker answers every other time
		began, polls := time.Now(), 0
		b := newBroker(address{URL: "http://broker"})
		b.http.Transport = transport(func() (*http.Response, error) {
			polls++
			if polls%2 == 0 || time.Since(began) > alive {
				return nil, errors.New("connection refused")
			}
			body := io.NopCloser(strings.NewReader(`{"state":"in progress"}`))
			return &http.Response{StatusCode: http.StatusOK, Body: body}, nil
		})
		s := &session{broker: b, progress: newProgress(io.Discard)}
		op := begun(create)
		err := s.await(t.Context(), work{path: "/v2/service_instances/i", op: &op})
		assert.True(t, err != nil && strings.Contains(err.Error(), "the operation's state for 10m0s"), "error = %v", err)
		assert.Equal(t, domain.InProgress, op.State, "the operation")
		silence := time.Since(began) - alive
		assert.True(t, silence >= maxSilence-time.Minute && silence <= maxSilence+time.Minute,
			"it gave up after %v of silence", silence)
	})
}
