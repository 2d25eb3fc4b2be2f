package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"

	"code.cloudfoundry.org/brokerapi/v13/handlers"
)

// encodeCatalog returns the response to GET /v2/catalog: what brokerapi encodes, with binding_rotatable added. The
// catalog does not change while a broker runs, and encoding it takes longer than the rest of such a request.
func encodeCatalog(library handlers.APIHandler, rotatable func(planID string) bool) ([]byte, error) {
	r, err := http.NewRequest(http.MethodGet, catalogPath, nil)
	if err != nil {
		return nil, err
	}
	b := &bufferedResponse{header: http.Header{}}
	library.Catalog(b, r)
	if b.status != http.StatusOK || !b.isObject() {
		return nil, fmt.Errorf("encode the catalog: status %d with the body %q", b.status, b.body.Bytes())
	}
	return withRotatable(b.body.Bytes(), rotatable)
}

// withRotatable adds binding_rotatable, which brokerapi lacks, to the plans of an encoded catalog.
func withRotatable(catalog []byte, rotatable func(planID string) bool) ([]byte, error) {
	var all map[string][]map[string]json.RawMessage
	if err := json.Unmarshal(catalog, &all); err != nil {
		return nil, fmt.Errorf("decode the catalog: %w", err)
	}
	added := false
	for _, service := range all["services"] {
		var plans []map[string]json.RawMessage
		if err := json.Unmarshal(service["plans"], &plans); err != nil {
			return nil, fmt.Errorf("decode the plans of the catalog: %w", err)
		}
		for _, plan := range plans {
			var id string
			if json.Unmarshal(plan["id"], &id) == nil && rotatable(id) {
				plan["binding_rotatable"], added = json.RawMessage("true"), true
			}
		}
		encoded, err := json.Marshal(plans)
		if err != nil {
			return nil, fmt.Errorf("encode the plans of the catalog: %w", err)
		}
		service["plans"] = encoded
	}
	if !added {
		return catalog, nil
	}
	return json.Marshal(all)
}

// respondWith responds with 200 and a valid JSON object.
func respondWith(object []byte) http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { callFrom(r.Context()).prepared = object })
}
