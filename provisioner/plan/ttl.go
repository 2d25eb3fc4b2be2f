package plan

import (
	"errors"
	"regexp"
	"strconv"
	"time"
)

// TTL is how long a binding lasts; 0 if it does not end by itself. Its text has the form that ParseTTL reads.
type TTL time.Duration

// MaxTTL is the longest TTL, ten years.
const MaxTTL = TTL(3650 * 24 * time.Hour)

// errTTL completes the sentence "… must be …".
var errTTL = errors.New("whole days, hours, minutes and seconds such as 30d, 8h or 1h30m, from 1s to 3650d")

var (
	ttlForm = regexp.MustCompile(`^([0-9]+[dhms])+$`)
	ttlPart = regexp.MustCompile(`[0-9]+[dhms]`)
	ttlUnit = map[byte]time.Duration{'d': 24 * time.Hour, 'h': time.Hour, 'm': time.Minute, 's': time.Second}
)

// ParseTTL reads a TTL such as "8h" or "1d12h". The error completes the sentence "… must be …".
func ParseTTL(text string) (TTL, error) {
	if len(text) > 32 || !ttlForm.MatchString(text) {
		return 0, errTTL
	}
	var sum TTL
	for _, part := range ttlPart.FindAllString(text, -1) {
		n, err := strconv.ParseInt(part[:len(part)-1], 10, 64)
		unit := ttlUnit[part[len(part)-1]]
		if err != nil || n > int64(MaxTTL)/int64(unit) {
			return 0, errTTL
		}
		sum += TTL(n) * TTL(unit)
	}
	if sum <= 0 || sum > MaxTTL {
		return 0, errTTL
	}
	return sum, nil
}

// String returns the text of a TTL: "30d", "1h30m".
func (t TTL) String() string {
	text := ""
	rest := time.Duration(t)
	for _, unit := range []byte{'d', 'h', 'm', 's'} {
		if n := rest / ttlUnit[unit]; n > 0 {
			text += strconv.FormatInt(int64(n), 10) + string(unit)
			rest -= n * ttlUnit[unit]
		}
	}
	return text
}

// MarshalText implements encoding.TextMarshaler.
func (t TTL) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *TTL) UnmarshalText(text []byte) (err error) {
	*t, err = ParseTTL(string(text))
	return err
}
