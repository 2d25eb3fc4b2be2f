package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"

	"mysql-broker/test/testdrive"
)

// sendProvision sends a PUT on a connection of its own.
func sendProvision(i testdrive.Instance) (*net.TCPConn, error) {
	content, err := json.Marshal(i.ProvisionBody(nil))
	if err != nil {
		return nil, err
	}
	q, err := http.NewRequest("PUT", i.URL+i.Path(), bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	q.SetBasicAuth(i.Username, i.Password)
	q.Header.Set("X-Broker-API-Version", "2.17")
	conn, err := net.Dial("tcp", strings.TrimPrefix(i.URL, "http://"))
	if err != nil {
		return nil, err
	}
	out := bufio.NewWriter(conn)
	if err := errors.Join(q.Write(out), out.Flush()); err != nil {
		conn.Close()
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}
