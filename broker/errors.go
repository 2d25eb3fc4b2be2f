package broker

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"code.cloudfoundry.org/brokerapi/v13/domain/apiresponses"

	"mysql-broker/broker/catalog"
	"mysql-broker/provisioner/engine"
	"mysql-broker/visible"
)

// apiErrors maps each refusal but NeedsAsync to its status and error code in the OSB API. Cloud Controller deletes an
// instance or binding if its creation gets a 5xx, or a 422 without a code that it knows. So a user's mistake is a 400,
// a 409 or a 422 with a known code. TooManyBindings is the exception: for known codes Cloud Controller shows its own
// text, which would hide the limit. The DELETE that it sends then finds no binding (410).
var apiErrors = map[engine.Code]struct {
	status int
	key    string
}{
	engine.Invalid:           {http.StatusBadRequest, ""},
	engine.Conflict:          {http.StatusConflict, ""},
	engine.NotFound:          {http.StatusNotFound, ""},
	engine.AlreadyDeleted:    {http.StatusGone, ""},
	engine.Busy:              {http.StatusUnprocessableEntity, "ConcurrencyError"},
	engine.PlanChangeRefused: {http.StatusUnprocessableEntity, "PlanChangeNotSupported"},
	engine.TooMuchData:       {http.StatusUnprocessableEntity, "PlanChangeNotSupported"},
	engine.TooManyBindings:   {http.StatusUnprocessableEntity, "BindingLimitReached"},
	engine.Full:              {http.StatusBadRequest, ""},
	engine.Unavailable:       {http.StatusServiceUnavailable, ""},
}

// apiError converts an error of the lower layers into one that brokerapi can send. It returns other errors unchanged:
// the HTTP layer logs them and hides their text from clients.
func apiError(err error) error {
	if err == nil {
		return nil
	}
	if refusal := engine.Explain(err); refusal != nil {
		if refusal.Code == engine.NeedsAsync {
			return apiresponses.ErrAsyncRequired // the specification requires this text
		}
		a := apiErrors[refusal.Code]
		return caused(refusal.Sentence, a.status, a.key, err)
	}
	if _, ok := errors.AsType[*catalog.ParameterError](err); ok {
		return invalid(err.Error())
	}
	for unknown, sentence := range unknownIDs {
		if errors.Is(err, unknown) {
			return invalid(sentence)
		}
	}
	return err
}

// unknownIDs has the texts for ids that are not in the catalog.
var unknownIDs = map[error]string{
	catalog.ErrUnknownService: "The service_id is not in the catalog.",
	catalog.ErrUnknownPlan:    "The plan_id is not that of a plan of this service offering.",
}

// invalid refuses a request that can never succeed.
func invalid(sentence string) error { return failure(sentence, http.StatusBadRequest, "") }

// failure returns an error whose text is a sentence for users.
func failure(sentence string, status int, key string) error {
	return apiresponses.NewFailureResponseBuilder(errors.New(visible.Text(sentence)), status, cmp.Or(key, "refused")).
		WithErrorKey(key).Build()
}

// caused returns a failure with a sentence for users and the cause for the log. brokerapi's failures neither show nor
// unwrap their cause.
func caused(sentence string, status int, key string, cause error) error {
	return &causedFailure{response: failure(sentence, status, key), cause: cause}
}

type causedFailure struct{ response, cause error }

func (f *causedFailure) Error() string   { return f.cause.Error() }
func (f *causedFailure) Unwrap() []error { return []error{f.response, f.cause} }

// unlessHeld returns err. But if err says that something does not exist, and PostgreSQL is older than the servers, it
// returns store.ErrHeld, because the object may exist.
func (b *Broker) unlessHeld(ctx context.Context, err error) error {
	refusal, ok := errors.AsType[*engine.Error](err)
	if !ok || refusal.Code != engine.NotFound && refusal.Code != engine.AlreadyDeleted {
		return err
	}
	if held := b.provisioner.Held(ctx); held != nil {
		return held
	}
	return err
}
