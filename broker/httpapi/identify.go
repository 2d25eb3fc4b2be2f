package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"
)

// Headers as net/http keeps them, so that it need not make these of others for each request.
const (
	requestIdentityHeader = "X-Broker-Api-Request-Identity"
	correlationHeader     = "X-Correlation-Id"
	versionHeader         = "X-Broker-Api-Version"
	originatorHeader      = "X-Broker-Api-Originating-Identity"
)

// maxLoggedHeader bounds, in bytes, what a client that is not logged in can add to the log with one header.
const maxLoggedHeader = 256

// identify starts the request's call and echoes the platform's request identity on whatever answer follows.
// OSB API 2.15, "Request Identity".
//
// The call does not end when the client leaves. What it asked for may be half done, and a client that has only closed
// the half that it sends on, as `nc -N` does, still reads: net/http cannot tell the one from the other.
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
