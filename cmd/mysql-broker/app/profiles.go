package app

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
)

// startProfiles serves https://pkg.go.dev/net/http/pprof to everyone who can reach the address.
func (a *App) startProfiles(context.Context) (end ending, err error) {
	address := a.cfg.Pprof
	if address == "" {
		return end, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return end, fmt.Errorf("PPROF_ADDRESS: cannot listen on %s: %w", address, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	server := newServer(mux, a.log)
	server.WriteTimeout = 0                    // the client chooses a profile's duration
	go func() { _ = server.Serve(listener) }() // returns when the server is closed
	a.log.Info("profiles", "url", "http://"+listener.Addr().String()+"/debug/pprof/")
	return ending{stop: func() { _ = server.Close() }}, nil // which aborts running profiles
}
