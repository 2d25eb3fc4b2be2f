package transfer

import (
	"fmt"
	"regexp"
)

// masked matches strings and quoted names in a definition.
var masked = regexp.MustCompile("(?s)'(?:[^'\\\\]|\\\\.|'')*'|`(?:[^`]|``)*`")

// maskedTexts are the strings and quoted names for which there are marks in a definition.
type maskedTexts []string

var mark = regexp.MustCompile("\x00\\d+\x00")

// mask replaces strings and quoted names by marks, which have no parentheses and are on one line.
func mask(create string) (string, maskedTexts) {
	var texts maskedTexts
	create = masked.ReplaceAllStringFunc(create, func(text string) string {
		texts = append(texts, text)
		return fmt.Sprintf("\x00%d\x00", len(texts)-1)
	})
	return create, texts
}

// restore puts them back.
func (texts maskedTexts) restore(part string) string {
	return mark.ReplaceAllStringFunc(part, func(mark string) string {
		return texts[index(mark)]
	})
}

// index is the place of the text for which a mark stands.
func index(mark string) (n int) {
	_, _ = fmt.Sscanf(mark, "\x00%d\x00", &n) // mask has made it
	return n
}
