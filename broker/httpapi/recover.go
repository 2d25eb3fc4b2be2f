package httpapi

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
)

// recoverPanics responds with 500 to a request whose handler panicked, and logs the panic's value. Nothing has been
// sent by then, because respondInJSON, inside it, sends only complete responses.
func recoverPanics(log *slog.Logger) middleware {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			c := callFrom(r.Context())
			log.ErrorContext(r.Context(), "panic in a request",
				slog.String("request_id", c.info.ID),
				slog.String("panic", fmt.Sprint(p)),
				slog.String("stack", string(debug.Stack())))
			c.reason = "panic"
			send(w, c, http.StatusInternalServerError, failureBody(unexpected(c.info.ID)))
		}()
		next.ServeHTTP(w, r)
	}
}
