package engine

import (
	"crypto/rand"
	"encoding/base64"
	"strings"
)

// NewName returns a unique SQL name: a prefix and 100 random bits in lower-case base32. SQL names are never built from
// a platform's ids, which may be any string.
func NewName(prefix string) string {
	return prefix + strings.ToLower(rand.Text()[:20])
}

// NewPassword returns 192 random bits in a URL-safe alphabet.
func NewPassword() string {
	var b [24]byte
	rand.Read(b[:]) // never fails: see crypto/rand
	return base64.RawURLEncoding.EncodeToString(b[:])
}
