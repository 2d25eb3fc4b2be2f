package app

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// jsonListener accepts connections on which net/http's own refusals are JSON like all other responses. net/http refuses
// some requests before any handler runs: malformed ones, ones with too large headers, and ones with an unknown
// expectation. It writes these refusals in one piece and in plain text. https://go.dev/src/net/http/server.go, in
// conn.serve
type jsonListener struct {
	net.Listener
	log *slog.Logger
}

func (l jsonListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &jsonConn{conn, l.log}, nil
}

// jsonConn hides from net/http that a connection is TLS. The first read then does the handshake.
type jsonConn struct {
	net.Conn
	log *slog.Logger
}

// Write implements net.Conn.
func (c *jsonConn) Write(p []byte) (int, error) {
	if refusal := inJSON(p); refusal != nil {
		_, err := c.Conn.Write(refusal)
		return len(p), err
	}
	return c.Conn.Write(p)
}

// Read implements net.Conn. Like net/http, it responds to a client that sends HTTP to an HTTPS port.
func (c *jsonConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	secure, ok := c.Conn.(*tls.Conn)
	if err == nil || !ok || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) ||
		secure.ConnectionState().HandshakeComplete {
		return n, err
	}
	c.log.Warn("TLS handshake failed", "source", c.RemoteAddr().String(), "error", err)
	header, ok := errors.AsType[tls.RecordHeaderError](err)
	if ok && header.Conn != nil && speaksHTTP(header.RecordHeader) {
		_, _ = header.Conn.Write(refusalOf(http.StatusBadRequest, "Client sent an HTTP request to an HTTPS server."))
		_ = header.Conn.Close()
	}
	return n, io.EOF // so that net/http sends no response to it
}

// speaksHTTP reports whether the first bytes, which should begin TLS, begin an HTTP request.
func speaksHTTP(header [5]byte) bool {
	for _, method := range []string{"GET /", "HEAD ", "POST ", "PUT /", "PATCH", "DELET", "OPTIO"} {
		if string(header[:]) == method {
			return true
		}
	}
	return false
}

// NetConn returns the wrapped connection.
func (c *jsonConn) NetConn() net.Conn { return c.Conn }

// CloseWrite lets the client read a response to the end. net/http calls it.
func (c *jsonConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// plain is the end of the headers in net/http's own responses. Handlers' responses have a date.
const plain = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// inJSON returns the replacement for one of net/http's own responses, or nil for other data.
func inJSON(p []byte) []byte {
	line, rest, _ := bytes.Cut(p, []byte("\r\n"))
	words, own := strings.CutPrefix(string(line[:min(len(line), 200)]), "HTTP/1.1 ")
	if !own {
		return nil
	}
	code, reason, _ := strings.Cut(words, " ")
	status, err := strconv.Atoi(code)
	switch {
	case err != nil:
		return nil
	case status == http.StatusExpectationFailed:
		return refusalOf(status, "The request expects what this server does not do: leave out its header Expect.")
	case !bytes.HasPrefix(rest, []byte(plain[2:])):
		return nil
	case status == http.StatusRequestHeaderFieldsTooLarge:
		return refusalOf(status, fmt.Sprintf("The headers of the request are longer than %d bytes.", maxHeaderBytes))
	}
	return refusalOf(status, "The request is not HTTP as this server understands it: "+reason+".")
}

// refusalOf returns a response after which the connection closes.
func refusalOf(status int, description string) []byte {
	body, err := json.Marshal(map[string]string{"description": description})
	if err != nil { // strings always encode
		return nil
	}
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close"+
		"\r\n\r\n%s\n", status, http.StatusText(status), len(body)+1, body)
}
