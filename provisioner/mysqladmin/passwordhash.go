package mysqladmin

import (
	"crypto/rand"
	"crypto/sha1" // #nosec G505 -- MariaDB's mysql_native_password is made of it
	"crypto/sha256"
	"fmt"
	"strings"
)

// Passwords go to the servers as what these keep of them: it spares the server the work, and its logs the password.

// nativeHash is what mysql_native_password keeps of a password.
// https://mariadb.com/docs/server/reference/plugins/authentication-plugins/authentication-plugin-mysql_native_password
func nativeHash(password string) string {
	once := sha1.Sum([]byte(password)) // #nosec G401
	twice := sha1.Sum(once[:])         // #nosec G401
	return fmt.Sprintf("*%X", twice)
}

// sha2Rounds is how often caching_sha2_password hashes at least. More make it harder to guess passwords that people
// choose; the broker's are random. It is a multiple of 1000, and MySQL takes none below.
// https://dev.mysql.com/doc/refman/8.4/en/server-system-variables.html#sysvar_caching_sha2_password_digest_rounds
const sha2Rounds = 5000

// sha2SaltLength is in bytes; the crypt(3) that it is like has up to 16.
const sha2SaltLength = 20

// sha2Hash is what caching_sha2_password keeps of a password, with a new salt.
func sha2Hash(password string) string {
	salt := rand.Text()[:sha2SaltLength]
	return fmt.Sprintf("$A$%03X$%s%s", sha2Rounds/1000, salt, sha2Digest(password, salt))
}

// sha2Digest is the SHA-256 crypt of a password. The letters are those of its specification.
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

// encodeDigest writes the 32 bytes of a digest as the 43 characters of its specification, step 22.
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
