// Package outbound makes the HTTP clients of the broker. What they ask may be broken, or in the hands of others: no
// response takes more memory or time than its client says, no redirect is followed, because the request may hold a
// secret, and what was configured as https stays https.
package outbound

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

const (
	connectTime = 10 * time.Second
	idleTime    = time.Minute // for which an unused connection stays open
	maxIdle     = 8           // connections to one host
	maxHeader   = 256 << 10   // bytes
	// pingTime is after how much silence a connection that many requests share is probed, and for how long.
	pingTime = 15 * time.Second
)

// Options are those of a client.
type Options struct {
	// URL is the configured address. Requests go to any address with https, and to ones with http only if this is such a
	// one: to its host, or to one for which Safe holds.
	URL   string
	TLS   *tls.Config   // nil for the system's CAs
	Time  time.Duration // limits a request and its response; a user of the Transport alone: until the response begins
	Bytes int64         // limits the body of a response, unless its request has the context of Allow
}

// New returns a client. It sends nothing.
func New(o Options) *http.Client {
	secure := o.TLS.Clone()
	if secure == nil {
		secure = &tls.Config{}
	}
	secure.MinVersion = tls.VersionTLS12
	limited := &transport{bytes: o.Bytes, base: &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: connectTime, KeepAlive: pingTime}).DialContext,
		TLSClientConfig:        secure,
		TLSHandshakeTimeout:    connectTime,
		ResponseHeaderTimeout:  o.Time,
		MaxResponseHeaderBytes: maxHeader,
		MaxIdleConnsPerHost:    maxIdle,
		IdleConnTimeout:        idleTime,
		DisableCompression:     true, // what is small on the network would be large here
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingTime, PingTimeout: pingTime},
	}}
	if configured, err := url.Parse(o.URL); err == nil && configured.Scheme == "http" {
		limited.plain = configured.Host
	}
	return &http.Client{
		Timeout:   o.Time,
		Transport: limited,
		CheckRedirect: func(r *http.Request, _ []*http.Request) error {
			return fmt.Errorf("it redirects to %s://%s, and redirects are not followed", r.URL.Scheme, r.URL.Host)
		},
	}
}

// Safe reports whether nobody can read or change requests to u on the way.
func Safe(u *url.URL) bool {
	switch u.Scheme {
	case "https":
		return u.Host != ""
	case "http":
		address, err := netip.ParseAddr(u.Hostname())
		return u.Hostname() == "localhost" || err == nil && address.IsLoopback()
	default:
		return false
	}
}

type allowedKey struct{}

// Allow returns a context whose requests may get bodies of that many bytes, if the client's limit is lower.
func Allow(ctx context.Context, bytes int64) context.Context {
	return context.WithValue(ctx, allowedKey{}, bytes)
}

// transport checks addresses, and limits responses.
type transport struct {
	plain string // the host that may be asked without TLS, "" for none
	bytes int64
	base  *http.Transport
}

// CloseIdleConnections is for http.Client.
func (t *transport) CloseIdleConnections() { t.base.CloseIdleConnections() }

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && (t.plain == "" || r.URL.Scheme != "http" || r.URL.Host != t.plain && !Safe(r.URL)) {
		if r.Body != nil {
			_ = r.Body.Close() // as the interface demands
		}
		return nil, fmt.Errorf("%s://%s does not begin with https://", r.URL.Scheme, r.URL.Host)
	}
	response, err := t.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	allowed, _ := r.Context().Value(allowedKey{}).(int64)
	limit := max(t.bytes, allowed)
	response.Body = &body{response.Body, limit, limit}
	return response, nil
}

// body is the part of a response that is read, up to a limit.
type body struct {
	io.ReadCloser
	limit, left int64
}

func (b *body) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, fmt.Errorf("the response has more than %d bytes", b.limit)
	}
	if int64(len(p)) > b.left+1 { // the one that is too many
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n - 1, fmt.Errorf("the response has more than %d bytes", b.limit)
	}
	return n, err
}
