package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxNesting limits the levels of objects and arrays in a body, which protects recursive code.
const maxNesting = 64

// Limits on numbers in a body. PostgreSQL refuses more than 131,072 digits in jsonb, and writes 1e131071 with all its
// digits: a body of 1 MiB could become a response of 15 GB (PostgreSQL manual 8.1.2, "Arbitrary Precision Numbers").
// The largest exponent of IEEE 754's doubles is 308, and nobody relies on more (RFC 8259 section 6).
const (
	maxNumberBytes = 400
	maxExponent    = 400
)

// scanJSON returns a sentence about a document that is nested too deeply, has an invalid escape or has a number out of
// range, or "". It does not check the rest: in a malformed document it only follows brackets and quotes.
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
		case c == '-' || '0' <= c && c <= '9':
			length, fault := scanNumber(document[i:])
			if fault != "" {
				return fault
			}
			i += length - 1
		}
	}
	return ""
}

// scanNumber returns the length in bytes of the number that text starts with.
func scanNumber(text []byte) (length int, fault string) {
	length = len(text) - len(bytes.TrimLeft(text, "+-.0123456789eE"))
	if length > maxNumberBytes {
		return 0, fmt.Sprintf("The request body holds a number of more than %d characters.", maxNumberBytes)
	}
	if i := bytes.IndexAny(text[:length], "eE"); i >= 0 {
		exponent, err := strconv.Atoi(string(text[i+1 : length]))
		if errors.Is(err, strconv.ErrRange) || exponent < -maxExponent || exponent > maxExponent {
			return 0, fmt.Sprintf("The request body holds a number with an exponent beyond %d.", maxExponent)
		}
	}
	return length, ""
}

// scanEscape returns the length in bytes of the escape that text starts with. It reports escapes that PostgreSQL
// refuses in jsonb, which stores parameters and context: U+0000 and half a surrogate pair (PostgreSQL manual 8.14,
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
