package app

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
)

// serveProfiles serves what https://pkg.go.dev/net/http/pprof offers, to whoever can reach the address, until it is
// closed.
func serveProfiles(address string, log *slog.Logger) (*http.Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("PPROF_ADDRESS %s cannot be had: %w", address, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	server := newServer(mux, log)
	server.WriteTimeout = 0                    // a profile takes as long as it is asked to
	go func() { _ = server.Serve(listener) }() // ends when it is closed
	log.Info("profiles", "url", "http://"+listener.Addr().String()+"/debug/pprof/")
	return server, nil
}
