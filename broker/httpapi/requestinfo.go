package httpapi

import "context"

// RequestInfo is what a request's headers say about it.
type RequestInfo struct {
	// ID is the X-Broker-API-Request-Identity, or a new UUID where the platform sent none.
	ID string
	// CorrelationID is the X-Correlation-ID; empty if absent.
	CorrelationID string
	// APIVersion is the X-Broker-API-Version as sent; APIMinor is 9 for "2.9".
	APIVersion string
	APIMinor   int
	// Platform and UserID are the originating identity; empty if absent or not decodable.
	Platform string
	UserID   string
}

// RequestInfoFrom returns the facts about the request that ctx belongs to, all zero outside of one.
func RequestInfoFrom(ctx context.Context) RequestInfo {
	return callFrom(ctx).info
}
