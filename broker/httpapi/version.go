package httpapi

import (
	"net/http"
	"strconv"
	"strings"
)

// checkVersion refuses requests of another major version, or of none, with 412. Every 2.x is welcome: minor versions
// only add to the API, and brokerapi leaves out of an answer what an older platform does not know.
// OSB API 2.9, "API Version Header".
func checkVersion(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		minor, ok := minorVersion(r.Header.Get(versionHeader))
		if !ok {
			refuse(w, r, http.StatusPreconditionFailed, "api-version-unsupported",
				"The header X-Broker-API-Version must be 2.x with a number for x, such as 2.9 or 2.17.")
			return
		}
		callFrom(r.Context()).info.APIMinor = minor
		next.ServeHTTP(w, r)
	})
}

// minorVersion is the x of 2.x, of four digits at most.
func minorVersion(version string) (minor int, ok bool) {
	digits, ok := strings.CutPrefix(version, "2.")
	if !ok || len(digits) > 4 || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	minor, err := strconv.Atoi(digits)
	return minor, err == nil
}
