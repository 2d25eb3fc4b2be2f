package httpapi

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
)

// recoverPanics answers 500 to a request whose handler panicked; what it panicked with goes to the log only. Nothing
// has been sent by then: answerInJSON, inside of it, sends an answer when it is whole.
func recoverPanics(log *slog.Logger) middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
		})
	}
}
