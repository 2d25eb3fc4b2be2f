package httpapi

import (
	"net/http"
	"strings"
)

// checkVersion refuses requests with another major version, or without a version, with 412. It accepts every 2.x: minor
// versions only add to the API, and brokerapi omits what an older platform does not know. OSB API 2.9, "API Version
// Header".
func checkVersion(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if !isMajor2(r.Header.Get(versionHeader)) {
		refuse(w, r, http.StatusPreconditionFailed, "api-version-unsupported",
			"The header X-Broker-API-Version must be 2.x with a number for x, such as 2.9 or 2.17.")
		return
	}
	next.ServeHTTP(w, r)
}

// isMajor2 reports whether a version is 2.x, where x has at most four digits.
func isMajor2(version string) bool {
	minor, ok := strings.CutPrefix(version, "2.")
	return ok && minor != "" && len(minor) <= 4 && strings.Trim(minor, "0123456789") == ""
}
