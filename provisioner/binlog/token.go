package binlog

import "strings"

// token is a word, a number, a quoted name, a string or another character of a statement.
type token struct {
	name    string // without quotation marks
	text    string // in capitals
	quoted  byte   // the quotation mark, 0 for none
	at, end int    // where it is in the statement
}

// Bits of sql_mode.
const (
	ansiQuotes         = 1 << 2
	noBackslashEscapes = 1 << 20
)

// tokens splits a statement. Comments are left out, and those that are executed are like the rest.
func tokens(text string, sqlMode, client uint64) (all []token) {
	for at := 0; at < len(text); {
		length := 1
		switch c := text[at]; {
		case isSpace(c), strings.HasPrefix(text[at:], "*/"):
			at += 1 + strings.Count(text[at:at+1], "*")
			continue
		case strings.HasPrefix(text[at:], "/*!"), strings.HasPrefix(text[at:], "/*M!"):
			at += strings.IndexByte(text[at:], '!') + 1
			at += len(text[at:]) - len(strings.TrimLeft(text[at:], "0123456789"))
			continue
		case strings.HasPrefix(text[at:], "/*"):
			at += until(text[at:], 2, "*/")
			continue
		case c == '#', strings.HasPrefix(text[at:], "--") && (at+2 == len(text) || isSpace(text[at+2])):
			at += until(text[at:], 1, "\n")
			continue
		case c == '`', c == '\'', c == '"':
			length = quotedLength(text[at:], sqlMode, client)
			all = append(all, token{unquoted(text[at:at+length], c), "", c, at, at + length})
			if c == '"' && sqlMode&ansiQuotes != 0 {
				all[len(all)-1].quoted = '`'
			}
			at += length
			continue
		case isWord(c):
			for length = 0; at+length < len(text) && isWord(text[at+length]); length++ {
				if hides(text[at+length:], client) {
					length++
				}
			}
		}
		word := text[at : at+length]
		all = append(all, token{word, strings.ToUpper(word), 0, at, at + length})
		at += length
	}
	return all
}

func isSpace(c byte) bool { return strings.IndexByte(" \t\n\v\f\r\x00", c) >= 0 }

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '$' || c >= 0x80
}

// until returns where the end is behind which text goes on.
func until(text string, from int, end string) int {
	if n := strings.Index(text[min(from, len(text)):], end); n >= 0 {
		return from + n + len(end)
	}
	return len(text)
}

// quotedLength is the length of the string or quoted name with which text begins.
func quotedLength(text string, sqlMode, client uint64) int {
	escapes := sqlMode&noBackslashEscapes == 0 && text[0] != '`' && (text[0] == '\'' || sqlMode&ansiQuotes == 0)
	for at := 1; at < len(text); at++ {
		switch {
		case hides(text[at:], client), text[at] == '\\' && escapes:
			at++
		case text[at] == text[0] && at+1 < len(text) && text[at+1] == text[0]:
			at++
		case text[at] == text[0]:
			return at + 1
		}
	}
	return len(text)
}

// ambiguous are the collations, without those for NO PAD, of the character sets in which the second byte of a character
// can be a quotation mark or a backslash: big5, gbk, gb18030, sjis and cp932. In the last two, which are true here, the
// bytes from 0xa0 to 0xdf are characters of their own.
var ambiguous = map[uint64]bool{1: false, 84: false, 28: false, 87: false, 248: false, 249: false, 250: false,
	13: true, 88: true, 95: true, 96: true}

// hides reports whether text begins with such a character. Servers read a first byte without a second one as it is.
func hides(text string, client uint64) bool {
	katakana, found := ambiguous[client%1024]
	const least = '0' // of second bytes
	return found && len(text) > 1 && text[1] >= least && text[0] > 0x80 && text[0] < 0xff &&
		(!katakana || text[0] < 0xa0 || text[0] > 0xdf)
}

func unquoted(text string, mark byte) string {
	quote := string(mark)
	return strings.ReplaceAll(strings.TrimSuffix(text[1:], quote), quote+quote, quote)
}
