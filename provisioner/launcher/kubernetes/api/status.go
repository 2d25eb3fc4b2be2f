package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// StatusError is an error response of the API server.
type StatusError struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`

	request    string // "PATCH /api/v1/…"
	Code       int
	retryAfter time.Duration
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("Kubernetes answers %s with %d %s: %s", e.request, e.Code, e.Reason, e.Message)
}

// maxStatus limits how much of an error response is read.
const maxStatus = 64 << 10

func readStatus(request string, response *http.Response) error {
	e := &StatusError{request: request, Code: response.StatusCode}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxStatus))
	if err != nil || json.Unmarshal(text, e) != nil { // from a proxy
		e.Message = http.StatusText(e.Code)
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
		e.retryAfter = time.Duration(seconds) * time.Second
	}
	return e
}

// IsStatus reports whether the API server responded with that code.
func IsStatus(err error, code int) bool {
	e, ok := errors.AsType[*StatusError](err)
	return ok && e.Code == code
}

// IsNotFound reports whether there is no such object.
func IsNotFound(err error) bool { return IsStatus(err, http.StatusNotFound) }

// IsConflict reports whether the object has changed meanwhile, or exists already.
func IsConflict(err error) bool { return IsStatus(err, http.StatusConflict) }

// passes reports whether the same request may succeed soon: the API server cannot be reached, is busy, lost its
// connection to another component, or its response broke off.
func passes(err error) bool {
	if e, ok := errors.AsType[*StatusError](err); ok {
		switch e.Code {
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
	return ok || errors.Is(err, io.ErrUnexpectedEOF)
}
