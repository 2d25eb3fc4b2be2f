package mysqladmin_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"mysql-broker/test/limits"
)

// rawLogin speaks the protocol packet by packet, so that it can stop anywhere in a login.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase.html
type rawLogin struct {
	conn   net.Conn
	in     *bufio.Reader
	seq    byte
	plugin string // that the server asks for
	salt   []byte
}

const (
	protocolFlags = 0x1 | 0x8 | 0x200 | 0x2000 | 0x8000 | 0x80000 // with a database and the name of a plug-in
	utf8mb4       = 45
	noSuchPlugin  = "no_such_plugin" // makes the server ask for the right one
)

// dialRaw reads the server's greeting and says nothing.
func dialRaw(addr string) (*rawLogin, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	r := &rawLogin{conn: conn, in: bufio.NewReader(conn)}
	greeting, err := r.read()
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	rest := greeting[1+bytes.IndexByte(greeting, 0)+4:] // behind the version and the connection's id
	r.salt = append(bytes.Clone(rest[:8]), rest[8+1+2+1+2+2+1+10:][:12]...)
	r.plugin = cString(rest[8+1+2+1+2+2+1+10+13:])
	return r, nil
}

func cString(b []byte) string {
	name, _, _ := bytes.Cut(b, []byte{0})
	return string(name)
}

func (r *rawLogin) read() ([]byte, error) {
	if err := r.conn.SetDeadline(time.Now().Add(limits.Stuck)); err != nil {
		return nil, err
	}
	var header [4]byte
	if _, err := io.ReadFull(r.in, header[:]); err != nil {
		return nil, err
	}
	r.seq = header[3] + 1
	packet := make([]byte, int(header[0])|int(header[1])<<8|int(header[2])<<16)
	if _, err := io.ReadFull(r.in, packet); err != nil {
		return nil, err
	}
	if len(packet) == 0 {
		return nil, errors.New("an empty packet")
	}
	if packet[0] == 0xff {
		return nil, fmt.Errorf("error %d", binary.LittleEndian.Uint16(packet[1:]))
	}
	return packet, nil
}

func (r *rawLogin) write(packet []byte) error {
	_, err := r.conn.Write(append([]byte{byte(len(packet)), byte(len(packet) >> 8), byte(len(packet) >> 16), r.seq},
		packet...))
	return err
}

// name sends the account's name, with a wrong authentication plug-in, and reads which one the server wants.
func (r *rawLogin) name(user, database string) error {
	packet := binary.LittleEndian.AppendUint32(nil, protocolFlags)
	packet = append(binary.LittleEndian.AppendUint32(packet, 1<<24), utf8mb4)
	packet = append(packet, make([]byte, 23)...)
	packet = append(packet, user+"\x00\x00"+database+"\x00"+noSuchPlugin+"\x00"...)
	if err := r.write(packet); err != nil {
		return err
	}
	return r.readSwitch()
}

// change is name for a change of accounts in an open session.
func (r *rawLogin) change(user, database string) error {
	r.seq = 0
	packet := append([]byte{0x11}, user+"\x00\x00"+database+"\x00"...)
	packet = binary.LittleEndian.AppendUint16(packet, utf8mb4)
	if err := r.write(append(packet, noSuchPlugin+"\x00"...)); err != nil {
		return err
	}
	return r.readSwitch()
}

func (r *rawLogin) readSwitch() error {
	packet, err := r.read()
	if err != nil {
		return err
	}
	if packet[0] != 0xfe {
		return fmt.Errorf("%x instead of a request for another plug-in", packet)
	}
	r.plugin = cString(packet[1:])
	r.salt = bytes.TrimSuffix(packet[1+len(r.plugin)+1:], []byte{0})
	return nil
}

// prove completes a login.
func (r *rawLogin) prove(password string) error {
	if err := r.write(r.proof(password)); err != nil {
		return err
	}
	for {
		packet, err := r.read()
		switch {
		case err != nil:
			return err
		case packet[0] == 0:
			return nil
		case bytes.Equal(packet, []byte{1, 3}): // the server knows the password, and goes on by itself
		case bytes.Equal(packet, []byte{1, 4}): // it does not
			err = r.write([]byte{2})
		case packet[0] == 1:
			err = r.encrypt(password, packet[1:])
		default:
			err = fmt.Errorf("%x in a login", packet)
		}
		if err != nil {
			return err
		}
	}
}

func (r *rawLogin) proof(password string) []byte {
	if r.plugin == "mysql_native_password" {
		once := sha1.Sum([]byte(password))
		twice := sha1.Sum(once[:])
		with := sha1.Sum(slices.Concat(r.salt, twice[:]))
		subtle.XORBytes(once[:], once[:], with[:])
		return once[:]
	}
	once := sha256.Sum256([]byte(password))
	twice := sha256.Sum256(once[:])
	with := sha256.Sum256(slices.Concat(twice[:], r.salt))
	subtle.XORBytes(once[:], once[:], with[:])
	return once[:]
}

// encrypt sends the password with the server's public key.
func (r *rawLogin) encrypt(password string, key []byte) error {
	block, _ := pem.Decode(key)
	if block == nil {
		return fmt.Errorf("%q instead of a public key", key)
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return err
	}
	plain := append([]byte(password), 0)
	for n := range plain {
		plain[n] ^= r.salt[n%len(r.salt)]
	}
	sealed, err := rsa.EncryptOAEP(sha1.New(), rand.Reader, public.(*rsa.PublicKey), plain, nil)
	if err != nil {
		return err
	}
	return r.write(sealed)
}

// query reports whether a statement succeeds.
func (r *rawLogin) query(statement string) error {
	r.seq = 0
	if err := r.write(append([]byte{3}, statement...)); err != nil {
		return err
	}
	_, err := r.read()
	return err
}
