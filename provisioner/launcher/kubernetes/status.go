package kubernetes

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"mysql-broker/provisioner/launcher"
)

// statusError is an error response of the API server.
type statusError struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`

	request    string // "PATCH /api/v1/…"
	code       int
	retryAfter time.Duration
}

func (e *statusError) Error() string {
	return fmt.Sprintf("Kubernetes answers %s with %d %s: %s", e.request, e.code, e.Reason, e.Message)
}

// maxStatus limits how much of an error response is read.
const maxStatus = 64 << 10

func readStatus(request string, response *http.Response) error {
	e := &statusError{request: request, code: response.StatusCode}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxStatus))
	if err != nil || json.Unmarshal(text, e) != nil { // from a proxy
		e.Message = http.StatusText(e.code)
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
		e.retryAfter = time.Duration(seconds) * time.Second
	}
	return e
}

// isStatus reports whether the API server responded with that code.
func isStatus(err error, code int) bool {
	e, ok := errors.AsType[*statusError](err)
	return ok && e.code == code
}

func isNotFound(err error) bool { return isStatus(err, http.StatusNotFound) }
func isConflict(err error) bool { return isStatus(err, http.StatusConflict) }

// passes reports whether the same request may succeed soon: the API server cannot be reached, is busy, or lost its
// connection to another component.
func passes(err error) bool {
	if e, ok := errors.AsType[*statusError](err); ok {
		switch e.code {
		case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
			http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
		return false
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	_, ok := errors.AsType[*url.Error](err)
	return ok
}

// noServers is the sentence for users if an operator has to change something first.
const noServers = "The servers of this plan cannot be run here just now."

// explain adds to an error what the caller should do. All refusals have the code 403; only their text distinguishes a
// full quota from a missing right.
func explain(err error) error {
	if _, known := errors.AsType[*launcher.Error](err); known {
		return err
	}
	e, ok := errors.AsType[*statusError](err)
	if !ok {
		return err
	}
	switch {
	case e.code == http.StatusForbidden && saysNoRoom(e.Message):
		return launcher.NoRoom(err)
	case e.code == http.StatusForbidden && strings.Contains(e.Message, "expansion"),
		e.code == http.StatusForbidden && strings.Contains(e.Message, "must support resize"):
		return &launcher.Error{Action: launcher.GiveUp, Sentence: cannotGrow, Err: err}
	case e.code == http.StatusForbidden, e.code == http.StatusUnauthorized, e.code == http.StatusNotFound,
		e.code == http.StatusUnprocessableEntity, e.code == http.StatusBadRequest:
		return &launcher.Error{Action: launcher.GiveUp, Sentence: noServers, Err: err}
	}
	return err
}

// saysNoRoom recognizes the errors of quotas, limit ranges and the check of a pod's resize.
func saysNoRoom(message string) bool {
	return strings.Contains(message, "exceeded quota") || strings.Contains(message, "enough allocatable resources")
}
