package httpapi

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A body is refused with a sentence, or brokerapi can decode it.
func FuzzCheckRequestObject(f *testing.F) {
	for _, seed := range []string{
		aBody, "", "null", "[", `{"a":1,"A":2}`, `{"service_id":5}`, `{"parameters":[]}`, `{"context":null}`,
		`{"parameters":{"a":"\u0000\\u0000"}}`, `{"previous_values":{"maintenance_info":{"public":{"a":1}}}}`,
		"{\"\xff\":1}", nested(70), `{"a"}`, `{"ſervice_id":"x","service_id":"y"}`, `{"maintenance_info":{"public":0}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, rt := range routes {
			if rt.newDetails == nil {
				continue
			}
			object, fault := checkRequestObject(body, rt.newDetails())
			if fault != "" {
				continue
			}
			d := rt.newDetails()
			assert.NoError(t, json.Unmarshal(object, d), "%q was let through, but decoding %q fails", body, object)
			for _, raw := range []json.RawMessage{d.GetRawParameters(), d.GetRawContext()} {
				assert.False(t, raw != nil && raw[0] != '{', "%q was let through with %q for an object", body, raw)
			}
		}
	})
}
