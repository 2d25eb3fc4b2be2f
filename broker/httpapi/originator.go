package httpapi

import (
	"encoding/base64"
	"encoding/json"
	"strings"
)

// originator decodes a header such as `cloudfoundry eyJ1c2VyX2lkIjoiLi4uIn0=`: a platform and the base64 of a JSON
// object. The user is Cloud Foundry's user_id or Kubernetes' uid. Both are empty if the header does not decode: it is
// only for the log, so no request is refused for it. OSB API, "Originating Identity".
func originator(header string) (platform, userID string) {
	if header == "" {
		return "", ""
	}
	platform, encoded, _ := strings.Cut(header, " ")
	value, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
	if err != nil {
		return "", ""
	}
	var user struct {
		UserID string `json:"user_id"`
		UID    string `json:"uid"`
	}
	if err := json.Unmarshal(value, &user); err != nil {
		return "", ""
	}
	if user.UserID == "" {
		return platform, user.UID
	}
	return platform, user.UserID
}
