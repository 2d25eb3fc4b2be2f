package httpapi

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxNesting bounds the levels of objects and arrays in a body, so that nothing behind need fear its recursion.
const maxNesting = 64

// scanJSON returns a sentence about a document that nests too deep or escapes what is no character, or "". It does
// not otherwise check the document: of a malformed one it sees the brackets and the quotes.
func scanJSON(document []byte) (fault string) {
	depth, inString := 0, false
	for i := 0; i < len(document); i++ {
		switch c := document[i]; {
		case c == '"':
			inString = !inString
		case inString && c == '\\':
			length, fault := scanEscape(document[i:])
			if fault != "" {
				return fault
			}
			i += length - 1
		case inString:
		case c == '{' || c == '[':
			depth++
			if depth > maxNesting {
				return fmt.Sprintf("The request body nests deeper than %d levels.", maxNesting)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return ""
}

// scanEscape returns the length in bytes of the escape that text starts with. Its fault is an escape that PostgreSQL
// refuses in jsonb, where parameters and context are kept: U+0000 and half a surrogate pair (PostgreSQL manual 8.14,
// "JSON Types").
func scanEscape(text []byte) (length int, fault string) {
	first, ok := escapedUnit(text)
	switch {
	case !ok:
		return 2, ""
	case first == 0:
		return 0, "The request body holds the character U+0000."
	case !utf16.IsSurrogate(first):
		return 6, ""
	}
	second, ok := escapedUnit(text[6:])
	if !ok || utf16.DecodeRune(first, second) == utf8.RuneError {
		return 0, "The request body holds half a surrogate pair."
	}
	return 12, ""
}

// escapedUnit returns the UTF-16 code unit of an escape such as \u20ac at the start of text.
func escapedUnit(text []byte) (unit rune, ok bool) {
	if len(text) < 6 || !bytes.HasPrefix(text, []byte(`\u`)) {
		return 0, false
	}
	value, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(value), err == nil
}
