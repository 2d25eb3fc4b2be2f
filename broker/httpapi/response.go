package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// bufferedResponse holds a handler's response until it is known to be one JSON object.
type bufferedResponse struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (b *bufferedResponse) Header() http.Header { return b.header }

func (b *bufferedResponse) WriteHeader(status int) {
	if b.status == 0 {
		b.status = status
	}
}

func (b *bufferedResponse) Write(p []byte) (int, error) {
	b.WriteHeader(http.StatusOK)
	return b.body.Write(p)
}

// respondInJSON sends the inner handlers' response, always as one JSON object: plain-text refusals of net/http become a
// description, and a response that failed to encode becomes a 500. It adds the values that the adapter has stored.
func respondInJSON(w http.ResponseWriter, r *http.Request, next http.Handler) {
	b := &bufferedResponse{header: w.Header()}
	next.ServeHTTP(b, r)

	c := callFrom(r.Context())
	status, body := b.whole(r, c)
	if c.retryAfter > 0 {
		w.Header().Set("Retry-After", wholeSeconds(c.retryAfter))
	}
	send(w, c, status, body)
}

// whole returns the status and the JSON object to send.
func (b *bufferedResponse) whole(r *http.Request, c *call) (int, []byte) {
	if c.prepared != nil {
		return http.StatusOK, c.prepared
	}
	if b.status == http.StatusMethodNotAllowed {
		c.reason = "method-not-allowed"
		return b.status, failureBody(fmt.Sprintf("This path takes %s, not %q.", b.header.Get("Allow"), clip(r.Method)))
	}
	if b.fromServeMux() {
		c.reason = "not-found"
		b.header.Del("Location")
		return http.StatusNotFound, failureBody("The Open Service Broker API has no such path.")
	}
	if r.Method == http.MethodGet && b.status < http.StatusBadRequest && c.maintenance == nil && b.isObject() {
		return b.status, b.body.Bytes()
	}
	body, err := b.object(c)
	if err == nil && b.status >= http.StatusBadRequest {
		body = reworded(body)
	}
	if err != nil {
		c.reason = "response-not-a-json-object"
		return http.StatusInternalServerError, failureBody(unexpected(c.info.ID))
	}
	return b.status, body
}

// sentences replace brokerapi's own texts.
var sentences = map[string]string{
	"service_id missing":            "The service_id is missing.",
	"plan_id missing":               "The plan_id is missing.",
	"service-id not in the catalog": "The service_id is not in the catalog.",
	"plan-id not in the catalog":    "The plan_id is not in the catalog.",
	"get instance endpoint only supported starting with OSB version 2.14": tooOldToFetch,
	"get binding endpoint only supported starting with OSB version 2.14":  tooOldToFetch,
}

const tooOldToFetch = "This path takes requests whose X-Broker-API-Version is 2.14 or later."

// reworded returns the body of a refusal, with brokerapi's text replaced.
func reworded(body []byte) []byte {
	var refusal struct {
		Description string `json:"description"`
	}
	if err := json.Unmarshal(body, &refusal); err != nil || sentences[refusal.Description] == "" {
		return body
	}
	return failureBody(sentences[refusal.Description])
}

// fromServeMux reports whether no route matched the request. http.ServeMux then refuses in plain text, or redirects to
// a path without "//" and "..", which platforms do not expect.
func (b *bufferedResponse) fromServeMux() bool {
	return b.status >= 300 && b.status < 500 && b.header.Get("Content-Type") != "application/json"
}

// isObject reports whether the body is one JSON object, without decoding it.
func (b *bufferedResponse) isObject() bool {
	return bytes.HasPrefix(b.body.Bytes(), []byte("{")) && json.Valid(b.body.Bytes())
}

// object returns the body, with the field that brokerapi lacks if there is one. It fails if the body is not one JSON
// object.
func (b *bufferedResponse) object(c *call) ([]byte, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(b.body.Bytes(), &object); err != nil {
		return nil, fmt.Errorf("decode the response: %w", err)
	}
	if object == nil {
		return nil, errors.New("the response is null")
	}
	if c.operation == "" {
		// With a malformed token, only the log lacks it.
		_ = json.Unmarshal(object["operation"], &c.operation)
	}
	if c.maintenance == nil || b.status != http.StatusOK {
		return b.body.Bytes(), nil
	}
	maintenance, err := json.Marshal(c.maintenance)
	if err != nil {
		return nil, fmt.Errorf("encode maintenance_info: %w", err)
	}
	object["maintenance_info"] = maintenance
	body, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode the response: %w", err)
	}
	return append(body, '\n'), nil
}

// wholeSeconds rounds up, so that nobody comes back too early. RFC 9110 section 10.2.3.
func wholeSeconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}
