package mysqladmin

import (
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
	bytes := 0
	for _, statement := range statements {
		bytes += len(statement)
		if len(statement) > 20_000 || strings.ContainsAny(statement, "\n;") {
			t.Errorf("servers cannot read %.100s … from a file: %d bytes", statement, len(statement))
		}
	}
	t.Log(len(statements), bytes)
	if last := statements[len(statements)-1]; !strings.HasPrefix(last, "INSERT INTO mysql.time_zone_name ") ||
		bytes > 2<<20 {
		t.Errorf("%d bytes, of which the last are %.100s", bytes, last)
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
	if got := readZone(time.UTC); len(got.transitions) != 1 {
		t.Errorf("UTC: %v", got)
	}
}
