package mysqladmin

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTimeZones(t *testing.T) {
	t.Parallel()
	statements, err := TimeZones()
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, statement := range statements {
		total += len(statement)
		if len(statement) > 20_000 || strings.ContainsAny(statement, "\n;") {
			t.Errorf("servers cannot read %.100s … from a file: %d bytes", statement, len(statement))
		}
	}
	t.Log(len(statements), total)
	if last := statements[len(statements)-1]; !strings.HasPrefix(last, "INSERT INTO mysql.time_zone_name ") ||
		total > 2<<20 {
		t.Errorf("%d bytes, of which the last are %.100s", total, last)
	}
	zurich, err := time.LoadLocation("Europe/Zurich")
	if err != nil {
		t.Fatal(err)
	}
	z := readZone(zurich)
	if got := z.kinds; len(got) != 2 || got[0] != (zoneKind{3600, 0, "CET"}) || got[1] != (zoneKind{7200, 1, "CEST"}) {
		t.Errorf("Zurich: %v", got)
	}
	if got := z.transitions[:2]; got[0].kind != 0 || got[1] != (zoneTransition{time.Date(1981, 3, 29, 1, 0, 0, 0, time.UTC).Unix(), 1}) {
		t.Errorf("Zurich: %v", got)
	}
	// Hosts without the package tzdata-legacy, or tzdata, have what is in the program: rules instead of their times.
	slim, err := time.LoadLocationFromTZData("Slim", slimZone("CET-1CEST,M3.5.0,M10.5.0/3"))
	if err != nil {
		t.Fatal(err)
	}
	rules := readZone(slim)
	from := func(z zone, year int) []zoneTransition {
		at := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
		n, _ := slices.BinarySearchFunc(z.transitions, at, func(t zoneTransition, at int64) int { return cmp.Compare(t.at, at) })
		return z.transitions[n:]
	}
	if got, want := from(rules, 1996), from(z, 1996); !slices.Equal(rules.kinds, z.kinds) || !slices.Equal(got, want) {
		t.Errorf("by rules: %v, by their times: %v", got, want)
	}
	if got := readZone(time.UTC); len(got.transitions) != 1 {
		t.Errorf("UTC: %v", got)
	}
}

// slimZone is a time zone with nothing but a rule, in the format of RFC 8536.
func slimZone(rule string) []byte {
	var out bytes.Buffer
	for range 2 { // the version with four bytes for a time, and that with eight
		out.WriteString("TZif2" + strings.Repeat("\x00", 15))
		_ = binary.Write(&out, binary.BigEndian, []uint32{0, 0, 0, 0, 1, 4}) // one type, and its abbreviation
		out.WriteString("\x00\x00\x0e\x10\x00\x00CET\x00")
	}
	out.WriteString("\n" + rule + "\n")
	return out.Bytes()
}
