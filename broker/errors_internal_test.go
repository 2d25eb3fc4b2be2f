package broker

import (
	"cmp"
	"errors"
	"fmt"
	"testing"

	"code.cloudfoundry.org/brokerapi/v13/domain/apiresponses"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/broker/catalog"
	"mysql-broker/provisioner/engine"
	"mysql-broker/store"
)

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
