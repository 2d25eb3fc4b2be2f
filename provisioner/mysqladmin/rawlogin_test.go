package mysqladmin_test

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/subtle"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/test/limits"
	"mysql-broker/test/testdrive"
)

// rawLogin is a login that stops when the server has read the account.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase.html
type rawLogin struct {
	net.Conn
	greeted bool
	sent    int           // packets
	named   chan struct{} // closed when it stops
	goOn    chan struct{}
	session driver.Conn // once it has ended
	ended   chan error

	plugin string // that the server asks for in a change of accounts
	salt   []byte
}

// nameRaw begins a login, and stops when the server has read the account.
func (f *fixture) nameRaw(a mysqladmin.Account) *rawLogin {
	r := &rawLogin{named: make(chan struct{}), goOn: make(chan struct{}), ended: make(chan error, 1)}
	cfg := testdrive.Credentials{}.Login(f.t, a.Name, a.Password, f.config.Addr, a.Database)
	cfg.DialFunc = func(_ context.Context, network, addr string) (_ net.Conn, err error) {
		r.Conn, err = net.Dial(network, addr)
		return r, err
	}
	connector, err := mysql.NewConnector(cfg)
	f.must(err)
	go func() {
		r.session, err = connector.Connect(f.t.Context())
		r.ended <- err
	}()
	testdrive.Receive(f.t, r.named, "the server reads the account")
	f.t.Cleanup(func() { _ = r.Conn.Close() })
	return r
}

const native, sha2 = "mysql_native_password", "caching_sha2_password"

// Read exchanges the plug-in that the server names in its greeting, so that the driver begins with another one than the
// account has, and the server asks for that.
func (r *rawLogin) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	if !r.greeted {
		r.greeted = true
		copy(p, strings.NewReplacer(native, sha2, sha2, native).Replace(string(p[:n])))
	}
	return n, err
}

// Write stops before what answers the server.
func (r *rawLogin) Write(p []byte) (int, error) {
	if r.sent++; r.sent == 2 {
		close(r.named)
		<-r.goOn
	}
	return r.Conn.Write(p)
}

// prove completes the login.
func (r *rawLogin) prove() error {
	close(r.goOn)
	return <-r.ended
}

// query reports whether a statement succeeds.
func (r *rawLogin) query(ctx context.Context, statement string) error {
	_, err := r.session.(driver.ExecerContext).ExecContext(ctx, statement, nil)
	return err
}

// change asks for a change of accounts in the open session, and stops when the server has read the account.
func (r *rawLogin) change(a mysqladmin.Account) error {
	answer, err := r.send(0, "\x11"+a.Name+"\x00\x00"+a.Database+"\x00\x2d\x00no_such_plugin\x00\x00")
	if err != nil {
		return err
	}
	if answer[0] != 0xfe {
		return fmt.Errorf("%x instead of a request for another plug-in", answer)
	}
	plugin, salt, _ := bytes.Cut(answer[1:], []byte{0})
	r.plugin, r.salt = string(plugin), bytes.TrimSuffix(salt, []byte{0})
	return nil
}

// become goes on with a change of accounts. It succeeds if the server takes the password, or asks for it once more, as
// MySQL does after any proof.
func (r *rawLogin) become(password string) error {
	proof := make([]byte, 32)
	if r.plugin == native {
		once := sha1.Sum([]byte(password))
		twice := sha1.Sum(once[:])
		with := sha1.Sum(slices.Concat(r.salt, twice[:]))
		proof = proof[:subtle.XORBytes(proof, once[:], with[:])]
	}
	_, err := r.send(2, string(proof))
	return err
}

// send sends a packet, and reads the one that answers it.
func (r *rawLogin) send(number byte, packet string) (answer []byte, err error) {
	if err := r.Conn.SetDeadline(time.Now().Add(limits.Stuck)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(r.Conn, string([]byte{byte(len(packet)), 0, 0, number})+packet); err != nil {
		return nil, err
	}
	var header [4]byte
	if _, err := io.ReadFull(r.Conn, header[:]); err != nil {
		return nil, err
	}
	answer = make([]byte, int(header[0])|int(header[1])<<8)
	if _, err := io.ReadFull(r.Conn, answer); err != nil {
		return nil, err
	}
	if len(answer) == 0 || answer[0] == 0xff {
		return nil, errors.New("the server refuses: " + string(answer))
	}
	return answer, nil
}
