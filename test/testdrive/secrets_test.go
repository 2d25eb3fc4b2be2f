package testdrive_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/test/testdrive"
)

func TestLeaksAreFound(t *testing.T) {
	t.Parallel()
	const secret = "pass/word+'with?all"
	for _, text := range []string{
		secret,
		"mysql://user:" + url.QueryEscape(secret) + "@host/",
		fmt.Sprintf("%q", secret),
		testdrive.Encode(t, testdrive.Body{"uri": secret}),
		"ALTER USER u IDENTIFIED BY 'pass/word+''with?all'",
		`\x00` + hex.EncodeToString([]byte(secret)) + "00",
		base64.StdEncoding.EncodeToString([]byte(secret)),
		base64.StdEncoding.EncodeToString([]byte("a:" + secret)),
		base64.StdEncoding.EncodeToString([]byte("ab:" + secret + "\n")),
		base64.URLEncoding.EncodeToString([]byte("abc:" + secret + "more")),
	} {
		line, found := testdrive.Leak("first\nbefore "+text+" after\nlast", secret)
		assert.True(t, found && line == "before "+text+" after", "not found in %q, but %q", text, line)
	}
	line, found := testdrive.Leak("pass/word+'without", secret)
	assert.False(t, found, "found in %q", line)
}
