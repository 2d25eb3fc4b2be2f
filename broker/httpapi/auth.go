package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// authenticate refuses requests without one of the credentials with 401. Its duration reveals neither how much of a
// guess was right nor which credential it resembles. OSB API 2.9, "Authentication"; RFC 7617.
//
// A source that has failed too often gets 429 even for the right credentials. Otherwise it could continue to guess,
// because only a right guess would succeed. RFC 6585 section 4. A request without credentials is not a guess.
func authenticate(credentials []Credential, proxies Proxies, log *slog.Logger, failed prometheus.Counter) middleware {
	accepted := make([]digest, len(credentials))
	for i, c := range credentials {
		accepted[i] = digestOf(c.Username, c.Password)
	}
	failures := &failedLogins{}
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		username, password, tried := r.BasicAuth()
		if !tried {
			askToLogIn(w, r)
			return
		}
		source, disbelieved := proxies.source(r)
		right := digestOf(username, password).among(accepted)
		switch wait, last := failures.admit(source, right, time.Now()); {
		case wait > 0:
			callFrom(r.Context()).retryAfter = wait
			refuse(w, r, http.StatusTooManyRequests, "too-many-failed-logins", fmt.Sprintf("Too many logins from "+
				"this address have failed. Try again in %s seconds, with the right user name and password.",
				wholeSeconds(wait)))
		case right:
			next.ServeHTTP(w, r)
		default:
			failed.Inc()
			line := log.With(slog.String("source", source.String()), slog.Bool("refused_from_now_on", last),
				slog.String("request_id", callFrom(r.Context()).info.ID))
			if last && disbelieved {
				line = line.With(slog.String("to_do", nameProxy))
			}
			line.WarnContext(r.Context(), "failed login")
			askToLogIn(w, r)
		}
	}
}

// nameProxy is for operators whose proxy is not in TRUSTED_PROXIES.
const nameProxy = "If this is the address of a proxy of yours, all its clients are refused: name it in " +
	"TRUSTED_PROXIES. Do not if it is anybody else's."

func askToLogIn(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("WWW-Authenticate", `Basic realm="mysql-broker", charset="UTF-8"`)
	refuse(w, r, http.StatusUnauthorized, "not-authenticated",
		"The service broker asks for basic authentication with a user name and password that it knows.")
}

// digest makes the time of a comparison independent of the credentials' length.
type digest [sha256.Size]byte

// digestOf is unambiguous, because a user name contains no colon.
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
