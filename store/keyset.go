package store

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	tinkpb "github.com/tink-crypto/tink-go/v2/proto/tink_go_proto"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// A key is replaced in steps: AddKey, PromoteKey, Store.Keys.Rotate, DropOldKeys. All brokers must have taken a step
// before the next one. Then brokers before and after a step can read what the others write. The functions take and
// return a keyset in the form that ParseKeyset reads; their errors never quote it.

// NewKeyset generates a keyset with one AES-256-GCM key.
func NewKeyset() (string, error) {
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return "", fmt.Errorf("generate a keyset: %w", err)
	}
	return writeKeyset(handle)
}

// AddKey adds a key that decrypts and does not encrypt yet.
func AddKey(text string) (string, error) {
	return changeKeyset(text, func(m *keyset.Manager, newest, primary uint32) error {
		if newest != primary {
			return errors.New("the keyset has a new key already: promote that first")
		}
		_, err := m.Add(aead.AES256GCMKeyTemplate())
		return err
	})
}

// PromoteKey makes the key that AddKey added the one that encrypts.
func PromoteKey(text string) (string, error) {
	return changeKeyset(text, func(m *keyset.Manager, newest, primary uint32) error {
		if newest == primary {
			return errors.New("the newest key of the keyset is in use already: add one first")
		}
		return m.SetPrimary(newest)
	})
}

// DropOldKeys removes every key except the one that encrypts. What was encrypted with the removed keys can no longer be
// read.
func DropOldKeys(text string) (string, error) {
	handle, err := readKeyset(text)
	if err != nil {
		return "", err
	}
	return changeKeyset(text, func(m *keyset.Manager, newest, primary uint32) error {
		if newest != primary {
			return errors.New("the newest key of the keyset is not in use yet: promote it first")
		}
		for _, key := range handle.KeysetInfo().GetKeyInfo() {
			if key.GetKeyId() == primary {
				continue
			}
			if err := m.Delete(key.GetKeyId()); err != nil {
				return err
			}
		}
		return nil
	})
}

// changeKeyset runs change with the ids of the newest key and of the one that encrypts.
func changeKeyset(text string, change func(m *keyset.Manager, newest, primary uint32) error) (string, error) {
	handle, err := readKeyset(text)
	if err != nil {
		return "", err
	}
	newest, err := handle.Entry(handle.Len() - 1)
	if err != nil {
		return "", fmt.Errorf("read the keyset: %w", err)
	}
	m := keyset.NewManagerFromHandle(handle)
	if err := change(m, newest.KeyID(), handle.KeysetInfo().GetPrimaryKeyId()); err != nil {
		return "", err
	}
	if handle, err = m.Handle(); err != nil {
		return "", fmt.Errorf("change the keyset: %w", err)
	}
	return writeKeyset(handle)
}

func readKeyset(text string) (*keyset.Handle, error) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, errors.New("the keyset is not base64")
	}
	handle, err := insecurecleartextkeyset.Read(keyset.NewBinaryReader(bytes.NewReader(raw)))
	if err != nil {
		return nil, errors.New("the keyset is not a Tink keyset")
	}
	return handle, nil
}

func writeKeyset(handle *keyset.Handle) (string, error) {
	var buf bytes.Buffer
	if err := insecurecleartextkeyset.Write(handle, keyset.NewBinaryWriter(&buf)); err != nil {
		return "", fmt.Errorf("write the keyset: %w", err)
	}
	return base64.StdEncoding.EncodeToString(buf.Bytes()), nil
}

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

// open decrypts a secret. A row without one has "".
func (k *Keyring) open(sealed []byte, place string) (string, error) {
	if sealed == nil {
		return "", nil
	}
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
func (k *Keyring) Current(wrapped []byte) bool { return bytes.HasPrefix(wrapped, keyMark(k.primary)) }
