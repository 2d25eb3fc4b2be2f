package testdrive

import (
	"fmt"
	"net/http"
	"time"

	"mysql-broker/test/limits"
)

// AsksToRepeat reports whether a response says "not now", so that platforms send the request again: the broker cannot
// work, or another request on the same instance is under way.
func AsksToRepeat(r Response) bool {
	return r.Status >= http.StatusInternalServerError || r.String("error") == "ConcurrencyError"
}

// Insist sends a request until the response is final, as platforms do.
func Insist(send func() (Response, error)) (Response, error) {
	for deadline := time.Now().Add(limits.Stuck); ; time.Sleep(pollInterval) {
		r, err := send()
		if err != nil || !AsksToRepeat(r) {
			return r, err
		}
		if time.Now().After(deadline) {
			return r, fmt.Errorf("still %d after %v: %s", r.Status, limits.Stuck, r.Raw)
		}
	}
}
