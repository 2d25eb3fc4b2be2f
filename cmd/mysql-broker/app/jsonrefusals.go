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

// jsonListener accepts connections on which what net/http answers itself, before any handler, is JSON as every other
// answer: requests that are no HTTP, whose headers are too large, or which expect what it cannot do. It writes them in
// one piece and in plain text, and asks nobody. https://go.dev/src/net/http/server.go, in conn.serve
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

// jsonConn hides from net/http that a connection is TLS, whose handshake its first read then makes.
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

// Read implements net.Conn. Like net/http, it tells a client that speaks HTTP where HTTPS is served.
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
	return n, io.EOF // so that net/http does not answer what could not be read
}

// speaksHTTP tells whether what should be the beginning of TLS is that of an HTTP request.
func speaksHTTP(header [5]byte) bool {
	for _, method := range []string{"GET /", "HEAD ", "POST ", "PUT /", "PATCH", "DELET", "OPTIO"} {
		if string(header[:]) == method {
			return true
		}
	}
	return false
}

// NetConn is the connection that is wrapped.
func (c *jsonConn) NetConn() net.Conn { return c.Conn }

// CloseWrite lets the client read an answer to the end: net/http asks for it.
func (c *jsonConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// plain is how the headers of net/http's own answers end. Those of handlers have a date.
const plain = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// inJSON returns what to send in place of an answer of net/http's own, nil if it is none.
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

// refusalOf is an answer after which the connection ends.
func refusalOf(status int, description string) []byte {
	body, err := json.Marshal(map[string]string{"description": description})
	if err != nil { // strings always encode
		return nil
	}
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close"+
		"\r\n\r\n%s\n", status, http.StatusText(status), len(body)+1, body)
}
