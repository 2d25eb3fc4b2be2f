package httpapi

import (
	"fmt"
	"net/http"

	"code.cloudfoundry.org/brokerapi/v13/handlers"
)

// encodeCatalog returns the response to GET /v2/catalog, as brokerapi encodes it. The catalog does not change while a
// broker runs, and encoding it takes longer than the rest of such a request.
func encodeCatalog(library handlers.APIHandler) ([]byte, error) {
	r, err := http.NewRequest(http.MethodGet, catalogPath, nil)
	if err != nil {
		return nil, err
	}
	a := &answer{header: http.Header{}}
	library.Catalog(a, r)
	if a.status != http.StatusOK || !a.isObject() {
		return nil, fmt.Errorf("encode the catalog: status %d with the body %q", a.status, a.body.Bytes())
	}
	return a.body.Bytes(), nil
}

// answerWith responds with 200 and a valid JSON object.
func answerWith(object []byte) http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { callFrom(r.Context()).prepared = object })
}
