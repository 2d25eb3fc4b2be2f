package httpapi

import (
	"context"
	"time"

	"code.cloudfoundry.org/brokerapi/v13/domain"
	"code.cloudfoundry.org/brokerapi/v13/middlewares"
)

// unmatched is the route of a request that did not get as far as one.
const unmatched = "unmatched"

// call is what the middlewares learn about one request and tell each other through its context, which it is: one value
// for all of them, found at once.
type call struct {
	context.Context

	info       requestInfo
	route      string
	instanceID string
	bindingID  string
	operation  string
	traceID    string // "" where requests are not traced

	client context.Context // ends when the client closes the connection, or its half
	since  time.Time       // when the request's headers were read

	status         int
	leftUnanswered bool // the client had left when the answer was sent
	// reason is the short key of a refusal, for the log: descriptions can hold what the user sent.
	reason string

	// prepared is the whole answer, a JSON object, if it is not nil.
	prepared   []byte
	retryAfter time.Duration
	// maintenance is the field maintenance_info of an instance that is fetched, nil where it has none.
	maintenance *domain.MaintenanceInfo
}

// left tells whether the client has closed the connection, or its half.
func (c *call) left() bool { return c.client != nil && c.client.Err() != nil }

type callKey struct{}

// Value implements context.Context. brokerapi puts the request's identity on the answer and asks the context for it;
// identify has put it there already.
func (c *call) Value(key any) any {
	switch key {
	case callKey{}:
		return c
	case middlewares.RequestIdentityKey:
		return ""
	}
	return c.Context.Value(key)
}

// callFrom returns the context's call. Outside of a request it returns one that nobody reads.
func callFrom(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{}
}
