// Package binlog reads the binary logs of MySQL and MariaDB over the network, as a replica does, and replays the
// changes of one database. It knows the events that servers write with binlog_format=ROW.
//
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_replication.html
// https://mariadb.com/kb/en/replication-protocol/
package binlog

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1" // #nosec G505 -- mysql_native_password is made of it
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Login says where a server is and how to log in. The account needs the privilege to be a replica.
type Login struct {
	Addr     string
	User     string
	Password string
	TLS      *tls.Config // never nil: a password is sent through it

	// Dial opens the connection; nil stands for net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Parts of the client/server protocol.
const (
	clientCapabilities = 0x1 | 0x4 | 0x200 | 0x800 | 0x2000 | 0x8000 | 0x80000 // 4.1 passwords, TLS, plugins
	clientTLS          = 0x800
	packetBytes        = 1<<24 - 1
	comQuery           = 3
	comBinlogDump      = 18
	utf8mb4            = 45

	native = "mysql_native_password"
	sha2   = "caching_sha2_password"
)

// idleTimeout limits how long the server may send nothing.
const idleTimeout = 30 * time.Second

// conn is a connection that is logged in.
type conn struct {
	net.Conn
	in       *bufio.Reader
	sequence byte
}

func dial(ctx context.Context, l Login) (c *conn, err error) {
	open := l.Dial
	if open == nil {
		open = new(net.Dialer).DialContext
	}
	raw, err := open(ctx, "tcp", l.Addr)
	if err != nil {
		return nil, err
	}
	c = &conn{Conn: raw, in: bufio.NewReaderSize(raw, 4<<10)}
	if err := c.logIn(ctx, l); err != nil {
		return nil, errors.Join(fmt.Errorf("log in: %w", err), c.Close())
	}
	return c, nil
}

func (c *conn) write(payload []byte) error {
	if err := c.SetDeadline(time.Now().Add(idleTimeout)); err != nil {
		return err
	}
	packet := append([]byte{byte(len(payload)), byte(len(payload) >> 8), byte(len(payload) >> 16), c.sequence}, payload...)
	c.sequence++
	_, err := c.Conn.Write(packet)
	return err
}

// next reads the header of the next packet.
func (c *conn) next() (length int, err error) {
	if err := c.SetDeadline(time.Now().Add(idleTimeout)); err != nil {
		return 0, err
	}
	var header [4]byte
	if _, err := io.ReadFull(c.in, header[:]); err != nil {
		return 0, err
	}
	c.sequence = header[3] + 1
	return int(header[0]) | int(header[1])<<8 | int(header[2])<<16, nil
}

// packet reads a short packet. An error that the server sends is an error.
func (c *conn) packet() ([]byte, error) {
	length, err := c.next()
	if err != nil {
		return nil, err
	}
	return c.rest(length)
}

func (c *conn) rest(length int) ([]byte, error) {
	if length == 0 || length > 1<<20 {
		return nil, fmt.Errorf("a packet of %d bytes was not expected", length)
	}
	payload := make([]byte, length)
	if _, err := io.ReadFull(c.in, payload); err != nil {
		return nil, err
	}
	if payload[0] != 0xff {
		return payload, nil
	}
	refusal := &mysql.MySQLError{}
	if len(payload) >= 3 {
		refusal.Number = binary.LittleEndian.Uint16(payload[1:])
		message := payload[3:]
		if len(message) > 6 && message[0] == '#' {
			copy(refusal.SQLState[:], message[1:6])
			message = message[6:]
		}
		refusal.Message = string(message)
	}
	return nil, refusal
}

var errProtocol = errors.New("the server sent something that is not understood")

func (c *conn) logIn(ctx context.Context, l Login) error {
	greeting, err := c.packet()
	if err != nil {
		return err
	}
	salt, plugin, err := readGreeting(greeting)
	if err != nil {
		return err
	}
	hello := binary.LittleEndian.AppendUint32(nil, clientCapabilities)
	hello = binary.LittleEndian.AppendUint32(hello, packetBytes)
	hello = append(append(hello, utf8mb4), make([]byte, 23)...)
	if err := c.write(hello); err != nil { // asks for TLS
		return err
	}
	secured := tls.Client(c.Conn, l.TLS)
	if err := secured.HandshakeContext(ctx); err != nil {
		return err
	}
	c.Conn, c.in = secured, bufio.NewReaderSize(secured, 64<<10)
	if plugin != native {
		plugin = sha2
	}
	answer := scramble(plugin, l.Password, salt)
	login := append(append(hello, l.User...), 0, byte(len(answer)))
	login = append(append(append(login, answer...), plugin...), 0)
	if err := c.write(login); err != nil {
		return err
	}
	return c.authenticate(l)
}

func (c *conn) authenticate(l Login) error {
	for {
		reply, err := c.packet()
		if err != nil {
			return err
		}
		switch {
		case reply[0] == 0: // OK
			return nil
		case reply[0] == 0xfe: // another plugin
			name, salt, found := bytes.Cut(reply[1:], []byte{0})
			plugin := string(name)
			if !found || plugin != native && plugin != sha2 {
				return fmt.Errorf("the server asks for the authentication plugin %q", name)
			}
			if err := c.write(scramble(plugin, l.Password, bytes.TrimSuffix(salt, []byte{0}))); err != nil {
				return err
			}
		case reply[0] == 1 && len(reply) == 2 && reply[1] == 3: // the server remembers the password; OK follows
		case reply[0] == 1 && len(reply) == 2 && reply[1] == 4: // it wants the password, which TLS protects
			if err := c.write(append([]byte(l.Password), 0)); err != nil {
				return err
			}
		default:
			return errProtocol
		}
	}
}

// readGreeting reads the first packet of a server.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_handshake_v10.html
func readGreeting(p []byte) (salt []byte, plugin string, err error) {
	end := bytes.IndexByte(p, 0)
	if p[0] != 10 || end < 0 || len(p) < end+1+31+13 {
		return nil, "", errProtocol
	}
	p = p[end+1:]
	if binary.LittleEndian.Uint16(p[13:])&clientTLS == 0 {
		return nil, "", errors.New("the server offers no TLS")
	}
	salt = append(append(salt, p[4:12]...), p[31:43]...)
	name, _, _ := bytes.Cut(p[44:], []byte{0})
	return salt, string(name), nil
}

func scramble(plugin, password string, salt []byte) []byte {
	if password == "" {
		return nil
	}
	hash := func(parts ...[]byte) []byte {
		h := sha256.New()
		if plugin == native {
			h = sha1.New() // #nosec G401 -- see the import
		}
		for _, p := range parts {
			h.Write(p)
		}
		return h.Sum(nil)
	}
	first := hash([]byte(password))
	second := hash(first)
	other := hash(second, salt)
	if plugin == native {
		other = hash(salt, second)
	}
	for n := range first {
		first[n] ^= other[n]
	}
	return first
}

// exec runs a statement without a result.
func (c *conn) exec(statement string) error {
	c.sequence = 0
	if err := c.write(append([]byte{comQuery}, statement...)); err != nil {
		return err
	}
	reply, err := c.packet()
	if err == nil && reply[0] != 0 {
		err = errProtocol
	}
	return err
}
