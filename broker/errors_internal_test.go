package broker

import (
	"errors"
	"fmt"
	"testing"

	"code.cloudfoundry.org/brokerapi/v13/domain/apiresponses"

	"mysql-broker/broker/catalog"
	"mysql-broker/provisioner"
	"mysql-broker/store"
)

// Cloud Controller deletes what it gets a 5xx or a 422 with an unknown code for.
func TestAPIErrors(t *testing.T) {
	t.Parallel()
	refusal := func(code provisioner.Code) error {
		return fmt.Errorf("wrapped: %w", &provisioner.Error{Code: code, Sentence: "Do this.", Err: errors.New("the cause")})
	}
	for _, test := range []struct {
		err      error
		status   int
		key      string
		sentence string // "" for that of refusal
	}{
		{refusal(provisioner.Invalid), 400, "", ""},
		{refusal(provisioner.Conflict), 409, "", ""},
		{refusal(provisioner.NotFound), 404, "", ""},
		{refusal(provisioner.AlreadyDeleted), 410, "", ""},
		{refusal(provisioner.Busy), 422, "ConcurrencyError", ""},
		{refusal(provisioner.PlanChangeRefused), 422, "PlanChangeNotSupported", ""},
		{refusal(provisioner.TooMuchData), 422, "PlanChangeNotSupported", ""},
		{refusal(provisioner.TooManyBindings), 422, "BindingLimitReached", ""},
		{refusal(provisioner.Full), 400, "", ""},
		{refusal(provisioner.Unavailable), 503, "", ""},
		{refusal(provisioner.NeedsAsync), 422, "AsyncRequired",
			"This service plan requires client support for asynchronous service operations."},
		{fmt.Errorf("read: %w", store.ErrUnavailable), 503, "", storeDown},
		{fmt.Errorf("read: %w", store.ErrHeld), 503, "", storeOld},
		{fmt.Errorf("wait: %w", store.ErrLocked), 422, "ConcurrencyError", locked},
		{catalog.ErrUnknownService, 400, "", "The service_id is not in the catalog."},
		{catalog.ErrUnknownPlan, 400, "", "The plan_id is not that of a plan of this service offering."},
		{fmt.Errorf("%s%w", "Parameter \"role\" is missing.", &catalog.ParameterError{}), 400, "", "Parameter \"role\" is missing."},
	} {
		err := apiError(test.err)
		var failure *apiresponses.FailureResponse
		if !errors.As(err, &failure) {
			t.Errorf("%v becomes %v", test.err, err)
			continue
		}
		sentence := test.sentence
		if sentence == "" {
			sentence = "Do this."
		}
		response, ok := failure.ErrorResponse().(apiresponses.ErrorResponse)
		if !ok || failure.ValidatedStatusCode(nil) != test.status || response.Error != test.key || response.Description != sentence {
			t.Errorf("%v becomes %d %+v", test.err, failure.ValidatedStatusCode(nil), response)
		}
		if test.status > 500 && !errors.Is(err, test.err) {
			t.Errorf("the log does not get the cause of %v", err)
		}
	}
	for _, unchanged := range []error{nil, errors.New("with a secret")} {
		if err := apiError(unchanged); err != unchanged {
			t.Errorf("%v becomes %v", unchanged, err)
		}
	}
}
