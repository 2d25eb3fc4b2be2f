package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// RetryAfter puts a Retry-After header, d rounded up to whole seconds, on the answer to the request that ctx belongs
// to. The broker calls it from one of its methods, before that returns. A d of zero or less asks for no header.
// OSB API 2.15, "Polling Last Operation"; Cloud Controller waits for at least 60 s whatever it says.
func RetryAfter(ctx context.Context, d time.Duration) {
	callFrom(ctx).retryAfter = d
}

// SetField adds a top-level field to the answer to the request that ctx belongs to, or replaces it: for what the
// specification knows and brokerapi has no place for, such as instance_usable, update_repeatable, and the
// maintenance_info of a fetched instance. The broker calls it from one of its methods, before that returns. It fails
// if the value does not encode as JSON.
func SetField(ctx context.Context, name string, value any) error {
	encoded, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode the answer's field %s: %w", name, err)
	}
	c := callFrom(ctx)
	if c.fields == nil {
		c.fields = map[string]json.RawMessage{}
	}
	c.fields[name] = encoded
	return nil
}

// Left returns what tells whether the client of the request that ctx belongs to has closed its connection, or the half
// of it that it sends on. The request goes on all the same: ctx does not end.
func Left(ctx context.Context) func() bool { return callFrom(ctx).left }

// wholeSeconds rounds up, so that nobody comes back too early. RFC 9110 section 10.2.3.
func wholeSeconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}
