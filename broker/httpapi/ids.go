package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxIDBytes limits an instance or binding id. Platforms send GUIDs; the specification sets no limit.
const maxIDBytes = 256

// checkIDs refuses, with 400, ids that the log, the store or a path could misread. It accepts any printable id,
// including slashes. OSB API 2.9, "Provisioning": ids are opaque non-empty strings.
func checkIDs(w http.ResponseWriter, r *http.Request, next http.Handler) {
	c := callFrom(r.Context())
	for _, id := range []struct {
		name, value string
		to          *string
	}{
		{"instance_id", r.PathValue("instance_id"), &c.instanceID},
		{"binding_id", r.PathValue("binding_id"), &c.bindingID},
	} {
		if fault := idFault(id.value); fault != "" {
			refuse(w, r, http.StatusBadRequest, "id-invalid", fmt.Sprintf("The %s in the path %s.", id.name, fault))
			return
		}
		*id.to = id.value
	}
	next.ServeHTTP(w, r)
}

// idFault returns what is wrong with an id, or "". For a route without the id, the argument is "".
func idFault(id string) string {
	switch {
	case len(id) > maxIDBytes:
		return fmt.Sprintf("is longer than %d bytes", maxIDBytes)
	case !utf8.ValidString(id):
		return "is not valid UTF-8"
	case strings.ContainsFunc(id, func(c rune) bool { return !unicode.IsPrint(c) }):
		return "holds a character that is not printable"
	case id == "." || id == "..":
		return `must not be "." or ".."`
	}
	return ""
}
