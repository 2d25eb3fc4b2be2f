package store

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// Keyring encrypts the passwords in the database. It is a Tink AEAD keyset: new secrets are sealed with its primary
// key, and any of its keys opens older ones.
type Keyring struct{ aead tink.AEAD }

// NewKeyset generates a keyset with one AES-256-GCM key, as the text that ParseKeyset takes.
func NewKeyset() (string, error) {
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return "", fmt.Errorf("generate a keyset: %w", err)
	}
	var buf bytes.Buffer
	if err := insecurecleartextkeyset.Write(handle, keyset.NewBinaryWriter(&buf)); err != nil {
		return "", fmt.Errorf("write the keyset: %w", err)
	}
	return base64.StdEncoding.EncodeToString(buf.Bytes()), nil
}

// ParseKeyset reads a keyset: Tink's binary form in base64. Its errors never quote the text.
func ParseKeyset(text string) (*Keyring, error) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, errors.New("the keyset is not base64")
	}
	handle, err := insecurecleartextkeyset.Read(keyset.NewBinaryReader(bytes.NewReader(raw)))
	if err != nil {
		return nil, errors.New("the keyset is not a Tink keyset")
	}
	primitive, err := aead.New(handle)
	if err != nil {
		return nil, errors.New("the keyset holds no usable AEAD key")
	}
	return &Keyring{aead: primitive}, nil
}

// seal encrypts secret for one row: place names the row, so that a ciphertext copied to another one does not open.
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
