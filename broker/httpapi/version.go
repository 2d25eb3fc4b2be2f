package httpapi

import (
	"net/http"
	"regexp"
	"strconv"
)

var versionPattern = regexp.MustCompile(`^2\.(\d{1,4})$`)

// checkVersion refuses requests of another major version, or of none, with 412. Every 2.x is welcome: minor versions
// only add to the API, and brokerapi leaves out of an answer what an older platform does not know.
// OSB API 2.9, "API Version Header".
func checkVersion(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		match := versionPattern.FindStringSubmatch(r.Header.Get(versionHeader))
		if match == nil {
			refuse(w, r, http.StatusPreconditionFailed, "api-version-unsupported",
				"The header "+versionHeader+" must be 2.x with a number for x, such as 2.9 or 2.17.")
			return
		}
		// The pattern admits nothing that Atoi refuses.
		callFrom(r.Context()).info.APIMinor, _ = strconv.Atoi(match[1])
		next.ServeHTTP(w, r)
	})
}
