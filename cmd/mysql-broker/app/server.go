package app

import (
	"log/slog"
	"net/http"
	"time"

	"mysql-broker/broker/httpapi"
)

// maxHeaderBytes is how long the headers of a request may be. net/http's own limit, 1 MiB, is for browsers with their
// cookies.
const maxHeaderBytes = 64 << 10

// newServer returns a server that no client can keep busy or fill: whoever sends too slowly is cut off, and one
// connection holds little memory. The number of connections is the kernel's to limit, by that of open files: they end
// by themselves, and a limit of our own would let idle ones shut the platform out.
func newServer(handler http.Handler, log *slog.Logger) *http.Server {
	// Platforms speak HTTP/1.1, whose requests the timeouts bound one by one.
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:           handler,
		Protocols:         protocols,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      70 * time.Second, // platforms give up after 60 s
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnContext:       httpapi.WithConn,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}
