package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"code.cloudfoundry.org/brokerapi/v13/domain/apiresponses"
)

// clientError returns the error for brokerapi's response. If err's chain has a failure response, that is the result,
// because brokerapi does not unwrap errors; the wrapping text is for the log. Every other error is unexpected: the
// client gets a sentence with the request id, and the log gets the whole text.
func (a adapter) clientError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	c := callFrom(ctx)
	var failure *apiresponses.FailureResponse
	if !errors.As(err, &failure) || failure == nil {
		a.logUnexpected(ctx, err)
		c.reason = "unexpected-error"
		return apiresponses.NewFailureResponse(errors.New(unexpected(c.info.ID)), http.StatusInternalServerError,
			c.reason)
	}
	status := failure.ValidatedStatusCode(nil)
	if status >= http.StatusInternalServerError {
		a.logUnexpected(ctx, err)
	}
	if status == http.StatusServiceUnavailable && c.retryAfter == 0 {
		c.retryAfter = outageRetry
	}
	c.reason = failure.LoggerAction()
	return described(failure)
}

// outageRetry is the Retry-After of a 503, unless the broker sets one. RFC 9110 section 15.6.4.
const outageRetry = 10 * time.Second

// logUnexpected formats err with fmt, which survives an error whose Error method panics on a nil pointer.
func (a adapter) logUnexpected(ctx context.Context, err error) {
	a.log.ErrorContext(ctx, "request failed",
		slog.String("request_id", callFrom(ctx).info.ID),
		slog.String("error", fmt.Sprint(err)))
}

// described returns the failure. If it needs a description and has none, the description is its status.
func described(failure *apiresponses.FailureResponse) error {
	response, ok := failure.ErrorResponse().(apiresponses.ErrorResponse)
	if !ok || strings.TrimSpace(response.Description) != "" {
		return failure
	}
	status := failure.ValidatedStatusCode(nil)
	text := fmt.Sprintf("The service broker refused the request: %s.", strings.ToLower(http.StatusText(status)))
	return apiresponses.NewFailureResponseBuilder(errors.New(text), status, failure.LoggerAction()).
		WithErrorKey(response.Error).Build()
}
