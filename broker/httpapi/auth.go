package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
)

// authenticate refuses requests without one of the credentials with 401. The time it takes says nothing about how
// much of a guess was right, nor which credential it resembles. OSB API 2.9, "Authentication"; RFC 7617.
func authenticate(credentials []Credential) middleware {
	accepted := make([]digest, len(credentials))
	for i, c := range credentials {
		accepted[i] = digestOf(c.Username, c.Password)
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			username, password, ok := r.BasicAuth()
			if !ok || !digestOf(username, password).among(accepted) {
				w.Header().Set("WWW-Authenticate", `Basic realm="mysql-broker", charset="UTF-8"`)
				refuse(w, r, http.StatusUnauthorized, "not-authenticated",
					"The service broker asks for basic authentication with a user name and password that it knows.")
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// digest makes credentials of any length take the same time to compare.
type digest [sha256.Size]byte

// digestOf is unambiguous, since a user name holds no colon.
func digestOf(username, password string) digest {
	return sha256.Sum256([]byte(username + ":" + password))
}

func (d digest) among(accepted []digest) bool {
	found := 0
	for _, a := range accepted {
		found |= subtle.ConstantTimeCompare(d[:], a[:])
	}
	return found == 1
}
