package httpapi

import (
	"cmp"
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
func identify(w http.ResponseWriter, r *http.Request, next http.Handler) {
	id := r.Header.Get(requestIdentityHeader)
	if id == "" {
		id = uuid.NewString()
	} else {
		w.Header().Set(requestIdentityHeader, id)
	}
	platform, user := originator(r.Header.Get(originatorHeader))
	c := &call{Context: context.WithoutCancel(r.Context()), client: r.Context(), since: time.Now(), route: unmatched,
		info: requestInfo{
			ID:            clip(id),
			CorrelationID: clip(r.Header.Get(correlationHeader)),
			APIVersion:    clip(r.Header.Get(versionHeader)),
			Platform:      clip(platform),
			UserID:        clip(cmp.Or(user.UserID, user.UID)),
			Name:          clip(cmp.Or(user.UserName, user.Username, user.Name)),
			Email:         clip(user.Email),
		}}
	next.ServeHTTP(w, r.WithContext(c))
}

// clip shortens what a client sent. It also removes NUL, which PostgreSQL cannot store.
func clip(s string) string {
	return strings.ReplaceAll(s[:min(len(s), maxLoggedHeader)], "\x00", "")
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
	// Name and Email of the user, if the originating identity has them.
	Name, Email string
}

// Originator is who asked for a request.
type Originator struct{ Platform, UserID, Name, Email, RequestID string }

// OriginatorOf returns who asked for the request of ctx.
func OriginatorOf(ctx context.Context) Originator {
	info := callFrom(ctx).info
	return Originator{Platform: info.Platform, UserID: info.UserID, Name: info.Name, Email: info.Email, RequestID: info.ID}
}

// user has the fields in which platforms name a user: Cloud Foundry sends user_id, Kubernetes uid and username, others
// more.
type user struct {
	UserID   string `json:"user_id"`
	UID      string `json:"uid"`
	UserName string `json:"user_name"`
	Username string `json:"username"`
	Name     string `json:"name"`
	Email    string `json:"email"`
}

// originator decodes a header such as `cloudfoundry eyJ1c2VyX2lkIjoiLi4uIn0=`: a platform and the base64 of a JSON
// object. The result is empty if the header does not decode: it is only for the log and the audit, so no request is
// refused for it. OSB API, "Originating Identity".
func originator(header string) (platform string, who user) {
	if header == "" {
		return "", user{}
	}
	platform, encoded, _ := strings.Cut(header, " ")
	value, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
	if err != nil || json.Unmarshal(value, &who) != nil {
		return "", user{}
	}
	return platform, who
}
