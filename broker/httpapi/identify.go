package httpapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Headers in net/http's canonical form, which saves the conversion for each request.
const (
	requestIdentityHeader = "X-Broker-Api-Request-Identity"
	correlationHeader     = "X-Correlation-Id"
	versionHeader         = "X-Broker-Api-Version"
	originatorHeader      = "X-Broker-Api-Originating-Identity"
)

// maxLoggedHeader limits, in bytes, how much of a header goes to the log, because clients send headers before they log
// in.
const maxLoggedHeader = 256

// identify starts the request's call and puts the platform's request identity on the response. OSB API 2.15, "Request
// Identity".
//
// The call does not end when the client leaves, because its work may be half done. A client that has closed only its
// sending half, as `nc -N` does, still reads, and net/http cannot distinguish the two.
func identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(requestIdentityHeader)
		if id == "" {
			id = uuid.NewString()
		} else {
			w.Header().Set(requestIdentityHeader, id)
		}
		platform, userID := originator(r.Header.Get(originatorHeader))
		c := &call{Context: context.WithoutCancel(r.Context()), client: r.Context(), since: time.Now(), route: unmatched,
			info: requestInfo{
				ID:            clip(id),
				CorrelationID: clip(r.Header.Get(correlationHeader)),
				APIVersion:    clip(r.Header.Get(versionHeader)),
				Platform:      clip(platform),
				UserID:        clip(userID),
			}}
		next.ServeHTTP(w, r.WithContext(c))
	})
}

func clip(s string) string {
	return s[:min(len(s), maxLoggedHeader)]
}

// requestInfo is what a request's headers say about it.
type requestInfo struct {
	// ID is the X-Broker-API-Request-Identity, or a new UUID if the platform sent none.
	ID string
	// CorrelationID is the X-Correlation-ID; empty if absent.
	CorrelationID string
	// APIVersion is the X-Broker-API-Version as sent.
	APIVersion string
	// Platform and UserID are the originating identity; empty if absent or not decodable.
	Platform string
	UserID   string
}

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
