package httpapi

import (
	"encoding/json"
	"net/http"
	"strconv"

	"code.cloudfoundry.org/brokerapi/v13/domain/apiresponses"
)

// refuse ends a request that never reaches the broker: the description is for the client, the reason a short key
// for the log.
func refuse(w http.ResponseWriter, r *http.Request, status int, reason, description string) {
	c := callFrom(r.Context())
	c.reason = reason
	send(w, c, status, failureBody(description))
}

// send writes one JSON object as the whole response.
func send(w http.ResponseWriter, c *call, status int, body []byte) {
	c.status, c.leftEarly = status, c.left()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	// An error means that the client has gone.
	_, _ = w.Write(body) // #nosec G705 -- it is JSON, and has that content type
}

func failureBody(description string) []byte {
	body, _ := json.Marshal(apiresponses.ErrorResponse{Description: description}) // strings always encode
	return append(body, '\n')
}

// unexpected is the sentence for a failure whose cause only the operator can see.
func unexpected(requestID string) string {
	return "The service broker failed unexpectedly. Its operator finds the cause in the broker's log under request " +
		requestID + "."
}
