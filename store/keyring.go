package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tink-crypto/tink-go/v2/aead"
	tinkpb "github.com/tink-crypto/tink-go/v2/proto/tink_go_proto"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// Keyring encrypts the passwords in the database. It is a Tink AEAD keyset: its primary key encrypts new secrets, and
// any of its keys decrypts older ones.
type Keyring struct {
	aead    tink.AEAD
	ids     map[uint32]bool // of its keys
	primary uint32          // id of the key that encrypts
}

// ParseKeyset reads a keyset: Tink's binary form in base64. Its errors never quote the text.
func ParseKeyset(text string) (*Keyring, error) {
	handle, err := readKeyset(text)
	if err != nil {
		return nil, err
	}
	primitive, err := aead.New(handle)
	if err != nil {
		return nil, errors.New("the keyset holds no usable AEAD key")
	}
	info := handle.KeysetInfo()
	keys := &Keyring{aead: primitive, ids: map[uint32]bool{}, primary: info.GetPrimaryKeyId()}
	for _, key := range info.GetKeyInfo() {
		if key.GetOutputPrefixType() != tinkpb.OutputPrefixType_TINK {
			return nil, errors.New("the keyset holds a key whose ciphertexts do not name it: make one with " +
				"`mysql-broker keyset`")
		}
		keys.ids[key.GetKeyId()] = key.GetStatus() == tinkpb.KeyStatusType_ENABLED
	}
	return keys, nil
}

// keyIDBytes is the length of a ciphertext's prefix: a version, and the id of its key.
// https://developers.google.com/tink/wire-format
const keyIDBytes = 5

// keyMark returns the prefix of all ciphertexts of a key.
func keyMark(id uint32) []byte { return binary.BigEndian.AppendUint32([]byte{1}, id) }

// Mark returns the prefix of every new ciphertext.
func (k *Keyring) Mark() []byte { return keyMark(k.primary) }

// keyOf returns the id of the key that a prefix names. ok is false if it is not a valid prefix.
func keyOf(mark []byte) (id uint32, ok bool) {
	if len(mark) != keyIDBytes || mark[0] != 1 {
		return 0, false
	}
	return binary.BigEndian.Uint32(mark[1:]), true
}

// seal encrypts secret for one row. place names the row, so that the ciphertext cannot be decrypted in another row.
func (k *Keyring) seal(secret, place string) ([]byte, error) {
	sealed, err := k.aead.Encrypt([]byte(secret), []byte(place))
	if err != nil {
		return nil, fmt.Errorf("encrypt a password of %s: %w", place, err)
	}
	return sealed, nil
}

func (k *Keyring) open(sealed []byte, place string) (string, error) {
	secret, err := k.aead.Decrypt(sealed, []byte(place))
	if err != nil {
		return "", fmt.Errorf("decrypt a password of %s: is its key in the keyset? %w", place, err)
	}
	return string(secret), nil
}

// Wrap encrypts a key that is kept outside of the database. what names what the key is for: Unwrap needs the same.
func (k *Keyring) Wrap(key, what []byte) ([]byte, error) { return k.aead.Encrypt(key, what) }

// Unwrap decrypts what Wrap returned. The error does not tell a wrong what from a keyset that lacks the key.
func (k *Keyring) Unwrap(wrapped, what []byte) ([]byte, error) { return k.aead.Decrypt(wrapped, what) }

// Current reports whether Wrap would encrypt with the same key again.
func (k *Keyring) Current(wrapped []byte) bool { return bytes.HasPrefix(wrapped, k.Mark()) }
