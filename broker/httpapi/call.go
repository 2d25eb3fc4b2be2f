package httpapi

import (
	"context"
	"encoding/json"
	"time"
)

// unmatched is the route of a request that did not get as far as one.
const unmatched = "unmatched"

// call is what the middlewares learn about one request and tell each other through its context.
type call struct {
	info       requestInfo
	route      string
	instanceID string
	bindingID  string
	operation  string

	status int
	// reason is the short key of a refusal, for the log: descriptions can hold what the user sent.
	reason string

	retryAfter time.Duration
	fields     map[string]json.RawMessage
}

type callKey struct{}

func withCall(ctx context.Context, c *call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// callFrom returns the context's call. Outside of a request it returns one that nobody reads.
func callFrom(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{}
}
