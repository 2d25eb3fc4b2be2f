package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
)

// maxBodyBytes is the maximum length of a request body.
const maxBodyBytes = 1 << 20

// checkBody refuses a malformed body with 400, and one longer than maxBodyBytes with 413. brokerapi would respond with
// 422 and the names of Go types, or accept the body. OSB API 2.9, "Provisioning": 400 "if the request is malformed or
// missing mandatory data".
func checkBody(newDetails func() details) middleware {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		// One byte more than the limit shows that the body is too long.
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
	}
}

// withBody returns a copy of r with the body. The content type may be that of a form, curl's default. Form is already
// set, so FormValue does not read the body.
func withBody(r *http.Request, body []byte) *http.Request {
	r = r.WithContext(r.Context())
	r.ContentLength = int64(len(body))
	r.Body = io.NopCloser(bytes.NewReader(body))
	return r
}
