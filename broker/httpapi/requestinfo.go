package httpapi

// requestInfo is what a request's headers say about it.
type requestInfo struct {
	// ID is the X-Broker-API-Request-Identity, or a new UUID if the platform sent none.
	ID string
	// CorrelationID is the X-Correlation-ID; empty if absent.
	CorrelationID string
	// APIVersion is the X-Broker-API-Version as sent.
	APIVersion string
	// Platform and UserID are the originating identity; empty if absent or not decodable.
	Platform string
	UserID   string
}
