package httpapi

import (
	"context"
	"time"

	"code.cloudfoundry.org/brokerapi/v13/domain"
	"code.cloudfoundry.org/brokerapi/v13/middlewares"
)

// unmatched is the route of a request that reached no route.
const unmatched = "unmatched"

// call is what the middlewares learn about one request. It is the request's context, so that all share one value and
// find it quickly.
type call struct {
	context.Context

	info       requestInfo
	route      string
	instanceID string
	bindingID  string
	operation  string
	traceID    string // "" if requests are not traced

	client context.Context // ends when the client closes the connection, or its half
	since  time.Time       // when the request's headers were read

	status    int
	leftEarly bool // the client had left when the response was sent
	// reason is the short key of a refusal, for the log: descriptions can contain user input.
	reason string

	// predecessor is the field predecessor_binding_id of a bind request.
	predecessor string

	// prepared is the complete response, a JSON object, if it is not nil.
	prepared   []byte
	retryAfter time.Duration
	// maintenance is the field maintenance_info of a fetched instance, nil if it has none.
	maintenance *domain.MaintenanceInfo
}

// left reports whether the client has closed the connection, or its sending half.
func (c *call) left() bool { return c.client != nil && c.client.Err() != nil }

type callKey struct{}

// Value implements context.Context. brokerapi reads the request's identity from the context to put it on the response,
// but identify has already put it there.
func (c *call) Value(key any) any {
	switch key {
	case callKey{}:
		return c
	case middlewares.RequestIdentityKey:
		return ""
	}
	return c.Context.Value(key)
}

// callFrom returns the context's call. Outside a request it returns an unused one.
func callFrom(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{}
}
