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

// answer buffers a handler's response until it is known to be one JSON object.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// answerInJSON sends the inner handlers' response, always as one JSON object: plain-text refusals of net/http become a
// description, and a response that failed to encode becomes a 500. It adds the values that the adapter has stored.
func answerInJSON(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := &answer{header: w.Header()}
		next.ServeHTTP(a, r)

		c := callFrom(r.Context())
		status, body := a.whole(r, c)
		if c.retryAfter > 0 {
			w.Header().Set("Retry-After", wholeSeconds(c.retryAfter))
		}
		send(w, c, status, body)
	})
}

// whole returns the status and the JSON object to send.
func (a *answer) whole(r *http.Request, c *call) (int, []byte) {
	if c.prepared != nil {
		return http.StatusOK, c.prepared
	}
	if a.status == http.StatusMethodNotAllowed {
		c.reason = "method-not-allowed"
		return a.status, failureBody(fmt.Sprintf("This path takes %s, not %q.", a.header.Get("Allow"), clip(r.Method)))
	}
	if a.fromServeMux() {
		c.reason = "not-found"
		a.header.Del("Location")
		return http.StatusNotFound, failureBody("The Open Service Broker API has no such path.")
	}
	if r.Method == http.MethodGet && a.status < http.StatusBadRequest && c.maintenance == nil && a.isObject() {
		return a.status, a.body.Bytes()
	}
	body, err := a.object(c)
	if err == nil && a.status >= http.StatusBadRequest {
		body = reworded(body)
	}
	if err != nil {
		c.reason = "answer-not-a-json-object"
		return http.StatusInternalServerError, failureBody(unexpected(c.info.ID))
	}
	return a.status, body
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
func (a *answer) fromServeMux() bool {
	return a.status >= 300 && a.status < 500 && a.header.Get("Content-Type") != "application/json"
}

// isObject reports whether the body is one JSON object, without decoding it.
func (a *answer) isObject() bool {
	return bytes.HasPrefix(a.body.Bytes(), []byte("{")) && json.Valid(a.body.Bytes())
}

// object returns the body, with the field that brokerapi lacks if there is one. It fails if the body is not one JSON
// object.
func (a *answer) object(c *call) ([]byte, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(a.body.Bytes(), &object); err != nil {
		return nil, fmt.Errorf("decode the answer: %w", err)
	}
	if object == nil {
		return nil, errors.New("the answer is null")
	}
	if c.operation == "" {
		// With a malformed token, only the log lacks it.
		_ = json.Unmarshal(object["operation"], &c.operation)
	}
	if c.maintenance == nil || a.status != http.StatusOK {
		return a.body.Bytes(), nil
	}
	maintenance, err := json.Marshal(c.maintenance)
	if err != nil {
		return nil, fmt.Errorf("encode maintenance_info: %w", err)
	}
	object["maintenance_info"] = maintenance
	body, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return append(body, '\n'), nil
}

// wholeSeconds rounds up, so that nobody comes back too early. RFC 9110 section 10.2.3.
func wholeSeconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}
