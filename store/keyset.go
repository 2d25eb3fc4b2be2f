package store

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
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
