package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// answerTime bounds one request, as platforms do.
const answerTime = time.Minute

// client sends requests over one connection that it keeps open, one after the other. It has no goroutines and parses as
// little as it can: on a machine with few cores, its own cost slows the broker down. It is for one goroutine.
type client struct {
	addr   string
	conn   net.Conn
	in     *bufio.Reader
	buffer []byte
	stop   func() bool // watching the context
}

// newClient connects to host:port. The connection is closed when ctx ends.
func newClient(ctx context.Context, addr string) (*client, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	return &client{addr: addr, conn: conn, in: bufio.NewReaderSize(conn, 16<<10), stop: stop}, nil
}

func (c *client) close() error {
	if !c.stop() {
		return nil // the end of the context has closed it
	}
	return c.conn.Close()
}

var authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(username+":"+password))

// do sends a request of API version 2.17 and returns the response. body is JSON, or empty.
func (c *client) do(method, path, body string) (status int, answer []byte, err error) {
	if err := c.conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return 0, nil, err
	}
	c.buffer = fmt.Appendf(c.buffer[:0], "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: %s\r\n"+
		"X-Broker-Api-Version: 2.17\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		method, path, c.addr, authorization, len(body), body)
	if _, err := c.conn.Write(c.buffer); err != nil {
		return 0, nil, err
	}
	response, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// expect is do for a response that must have one status.
func (c *client) expect(status int, method, path, body string) error {
	got, answer, err := c.do(method, path, body)
	if err == nil && got != status {
		err = fmt.Errorf("status %d instead of %d: %s", got, status, answer)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}
