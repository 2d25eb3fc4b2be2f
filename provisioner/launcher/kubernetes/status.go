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

// statusError is an answer of the API server that is no success.
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

// maxStatus bounds what is read of an answer that says no.
const maxStatus = 64 << 10

func readStatus(request string, response *http.Response) error {
	e := &statusError{request: request, code: response.StatusCode}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxStatus))
	if err != nil || json.Unmarshal(text, e) != nil { // a proxy has answered
		e.Message = http.StatusText(e.code)
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
		e.retryAfter = time.Duration(seconds) * time.Second
	}
	return e
}

// isStatus tells whether the API server answered with that code.
func isStatus(err error, code int) bool {
	e, ok := errors.AsType[*statusError](err)
	return ok && e.code == code
}

func isNotFound(err error) bool { return isStatus(err, http.StatusNotFound) }
func isConflict(err error) bool { return isStatus(err, http.StatusConflict) }

// passes tells whether the same request may succeed in a moment: the API server cannot be reached, is busy, or lost its
// own connection to what it asked.
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

// noServers is what users read where an operator has to change something first.
const noServers = "The servers of this plan cannot be run here just now."

// explain says what the caller is to do about an error. All refusals have the code 403; only their text tells a quota
// from a right that is missing.
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
		return &launcher.Error{Action: launcher.GiveUp, Sentence: "The disk of this server cannot grow.", Err: err}
	case e.code == http.StatusForbidden, e.code == http.StatusUnauthorized, e.code == http.StatusNotFound,
		e.code == http.StatusUnprocessableEntity, e.code == http.StatusBadRequest:
		return &launcher.Error{Action: launcher.GiveUp, Sentence: noServers, Err: err}
	}
	return err
}

// saysNoRoom knows what quotas, limit ranges and the check of a pod's resize say.
func saysNoRoom(message string) bool {
	return strings.Contains(message, "exceeded quota") || strings.Contains(message, "enough allocatable resources")
}
