package signin

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
)

// secret is the value of a browser's cookie. All other values that must not be guessed are derived from it.
type secret [32]byte

func newSecret() (s secret) {
	rand.Read(s[:]) // never fails
	return s
}

func parseSecret(text string) (s secret, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) != len(s) {
		return s, false
	}
	return secret(raw), true
}

func (s secret) String() string { return base64.RawURLEncoding.EncodeToString(s[:]) }

// derive returns 32 bytes that reveal neither the secret nor values derived for other purposes.
func (s secret) derive(purpose string) []byte {
	mac := hmac.New(sha256.New, s[:])
	mac.Write([]byte("mysql-broker dashboard: " + purpose))
	return mac.Sum(nil)
}

// text is derive, encoded as letters, digits, - and _.
func (s secret) text(purpose string) string {
	return base64.RawURLEncoding.EncodeToString(s.derive(purpose))
}
