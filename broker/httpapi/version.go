package httpapi

import (
	"net/http"
	"strings"
)

// checkVersion refuses requests of another major version, or of none, with 412. Every 2.x is welcome: minor versions
// only add to the API, and brokerapi leaves out of an answer what an older platform does not know.
// OSB API 2.9, "API Version Header".
func checkVersion(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isMajor2(r.Header.Get(versionHeader)) {
			refuse(w, r, http.StatusPreconditionFailed, "api-version-unsupported",
				"The header X-Broker-API-Version must be 2.x with a number for x, such as 2.9 or 2.17.")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isMajor2 tells whether a version is 2.x, with an x of four digits at most.
func isMajor2(version string) bool {
	minor, ok := strings.CutPrefix(version, "2.")
	return ok && minor != "" && len(minor) <= 4 && strings.Trim(minor, "0123456789") == ""
}
