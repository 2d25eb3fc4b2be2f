package app

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
)

// profiles serves what https://pkg.go.dev/net/http/pprof offers, to whoever can reach its address.
type profiles struct{ server *http.Server }

func serveProfiles(address string, log *slog.Logger) (*profiles, error) {
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
	p := &profiles{newServer(mux, log)}
	p.server.WriteTimeout = 0                    // a profile takes as long as it is asked to
	go func() { _ = p.server.Serve(listener) }() // ends when it is closed
	log.Info("profiles", "url", "http://"+listener.Addr().String()+"/debug/pprof/")
	return p, nil
}

// close breaks off profiles under way.
func (p *profiles) close() { _ = p.server.Close() }
