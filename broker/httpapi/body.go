package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
)

// maxBodyBytes is the length of the longest request body accepted.
const maxBodyBytes = 1 << 20

// checkBody refuses a body that is not one well-formed request with 400, or a longer one than maxBodyBytes with 413,
// where brokerapi would answer 422 with the names of Go types, or take it. OSB API 2.9, "Provisioning": 400 "if the
// request is malformed or missing mandatory data".
func checkBody(newDetails func() details) middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			// One byte more than the limit tells a longer body from one that just fits.
			body, err := io.ReadAll(io.LimitReader(r.Body, maxBodyBytes+1))
			if errors.Is(err, os.ErrDeadlineExceeded) {
				refuse(w, r, http.StatusRequestTimeout, "body-too-slow", "The request body took too long to arrive.")
				return
			}
			if err != nil {
				refuse(w, r, http.StatusBadRequest, "body-unreadable", "The request body ended too early.")
				return
			}
			if len(body) > maxBodyBytes {
				refuse(w, r, http.StatusRequestEntityTooLarge, "body-too-large",
					fmt.Sprintf("The request body is longer than %d bytes.", maxBodyBytes))
				return
			}
			body, fault := checkRequestObject(body, newDetails())
			if fault != "" {
				refuse(w, r, http.StatusBadRequest, "body-malformed", fault)
				return
			}
			next.ServeHTTP(w, withBody(r, body))
		})
	}
}

// withBody returns a copy of r with the body. That may claim to be a form, as curl's does by default: the request's
// Form is there already, so that FormValue does not look for it in the body.
func withBody(r *http.Request, body []byte) *http.Request {
	r = r.WithContext(r.Context())
	r.ContentLength = int64(len(body))
	r.Body = io.NopCloser(bytes.NewReader(body))
	return r
}
