package mysqladmin

import (
	"crypto/rand"
	"crypto/sha1" // #nosec G505 -- MariaDB's mysql_native_password is made of it
	"crypto/sha256"
	"fmt"
	"strings"
)

// The broker sends a server the hash that the server stores, not the password. This saves the server work, and keeps
// the password out of its logs.

// Identified is what follows an account's name in CREATE USER, with what a server of that name keeps of a password: for
// files that others than the server may come to read.
func Identified(flavour, password string) string {
	d := dialects[flavour]
	return strings.Replace(d.identified, "?", "'"+d.hash(password)+"'", 1)
}

// nativeHash is the hash that mysql_native_password stores.
// https://mariadb.com/docs/server/reference/plugins/authentication-plugins/authentication-plugin-mysql_native_password
func nativeHash(password string) string {
	once := sha1.Sum([]byte(password)) // #nosec G401
	twice := sha1.Sum(once[:])         // #nosec G401
	return fmt.Sprintf("*%X", twice)
}

// sha2Rounds is the smallest number of rounds that MySQL accepts. More rounds make it harder to guess passwords that
// people choose; the broker's are random. The number must be a multiple of 1000.
// https://dev.mysql.com/doc/refman/8.4/en/server-system-variables.html#sysvar_caching_sha2_password_digest_rounds
const sha2Rounds = 5000

// sha2SaltLength is in bytes. The SHA-crypt specification allows only 16.
const sha2SaltLength = 20

// sha2Hash is the hash that caching_sha2_password stores, with a new salt.
func sha2Hash(password string) string {
	salt := rand.Text()[:sha2SaltLength]
	return fmt.Sprintf("$A$%03X$%s%s", sha2Rounds/1000, salt, sha2Digest(password, salt))
}

// sha2Digest is the SHA-256 crypt of a password. The variables have the letters of its specification.
// https://www.akkadia.org/drepper/SHA-crypt.txt
func sha2Digest(password, salt string) string {
	b := sha256.Sum256([]byte(password + salt + password))
	a := sha256.New()
	a.Write([]byte(password + salt + repeatTo(b[:], len(password))))
	for n := len(password); n > 0; n >>= 1 {
		if n&1 == 1 {
			a.Write(b[:])
		} else {
			a.Write([]byte(password))
		}
	}
	c := a.Sum(nil)
	dp := sha256.Sum256([]byte(strings.Repeat(password, len(password))))
	p := repeatTo(dp[:], len(password))
	ds := sha256.Sum256([]byte(strings.Repeat(salt, 16+int(c[0]))))
	s := repeatTo(ds[:], len(salt))
	var round []byte
	for n := range sha2Rounds {
		round = round[:0]
		if n%2 == 1 {
			round = append(round, p...)
		} else {
			round = append(round, c...)
		}
		if n%3 != 0 {
			round = append(round, s...)
		}
		if n%7 != 0 {
			round = append(round, p...)
		}
		if n%2 == 1 {
			round = append(round, c...)
		} else {
			round = append(round, p...)
		}
		sum := sha256.Sum256(round)
		copy(c, sum[:])
	}
	return encodeDigest(c)
}

// repeatTo repeats a digest up to a length.
func repeatTo(digest []byte, length int) string {
	return strings.Repeat(string(digest), length/len(digest)+1)[:length]
}

// encodeDigest encodes the 32 bytes of a digest in 43 characters, as in step 22 of the specification.
func encodeDigest(c []byte) string {
	const alphabet = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	var text strings.Builder
	write := func(bits uint, characters int) {
		for range characters {
			text.WriteByte(alphabet[bits&63])
			bits >>= 6
		}
	}
	for n, i := 0, [3]int{0, 10, 20}; n < 10; n++ {
		write(uint(c[i[0]])<<16|uint(c[i[1]])<<8|uint(c[i[2]]), 4)
		i = [3]int{i[2] + 1, i[0] + 1, i[1] + 1}
	}
	write(uint(c[31])<<8|uint(c[30]), 3)
	return text.String()
}
