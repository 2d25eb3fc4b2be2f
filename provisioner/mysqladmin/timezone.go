package mysqladmin

import (
	"context"
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // for hosts without it
)

// zoneNames are the names of IANA's time zones, also those that have become links to others.
//
//go:embed timezones.txt
var zoneNames string

// zoneStatementBytes is about how long the statements of TimeZones are. Servers that read them from a file take 20,000
// bytes.
const zoneStatementBytes = 16 << 10

// TimeZones returns the statements, each on a line, that fill the tables of named time zones with what this program
// knows. The names come last: a server that has one has all of it. Servers only use times that TIMESTAMP has, and the
// last rule of a zone is written until 2037, as mysql_tzinfo_to_sql does.
func TimeZones() (statements []string, err error) {
	tables := []*zoneTable{{name: "time_zone (Time_zone_id, Use_leap_seconds)"},
		{name: "time_zone_transition_type (Time_zone_id, Transition_type_id, `Offset`, Is_DST, Abbreviation)"},
		{name: "time_zone_transition (Time_zone_id, Transition_time, Transition_type_id)"},
		{name: "time_zone_name (Name, Time_zone_id)"}}
	zones, types, transitions, names := tables[0], tables[1], tables[2], tables[3]
	ids := map[string]int{} // by all rules: links have those of their zone
	for name := range strings.FieldsSeq(zoneNames) {
		location, err := time.LoadLocation(name)
		if err != nil {
			return nil, fmt.Errorf("read the time zone %s: %w", name, err)
		}
		z := readZone(location)
		rules := fmt.Sprint(z)
		if ids[rules] == 0 {
			id := len(ids) + 1
			ids[rules] = id
			zones.add("(%d,'N')", id)
			for n, k := range z.kinds {
				types.add("(%d,%d,%d,%d,'%s')", id, n, k.offset, k.dst, k.abbreviation)
			}
			for _, t := range z.transitions {
				transitions.add("(%d,%d,%d)", id, t.at, t.kind)
			}
		}
		names.add("('%s',%d)", name, ids[rules])
	}
	for _, t := range tables {
		table, _, _ := strings.Cut(t.name, " ")
		statements = append(statements, "DELETE FROM mysql."+table)
	}
	for _, t := range tables {
		statements = append(statements, t.statements()...)
	}
	return statements, nil
}

// zoneTable are the rows of a table.
type zoneTable struct {
	name string
	rows []string
}

func (t *zoneTable) add(format string, args ...any) {
	t.rows = append(t.rows, fmt.Sprintf(format, args...))
}

func (t *zoneTable) statements() (all []string) {
	var text strings.Builder
	for n, row := range t.rows {
		if text.Len() == 0 {
			text.WriteString("INSERT INTO mysql." + t.name + " VALUES ")
		} else {
			text.WriteByte(',')
		}
		text.WriteString(row)
		if text.Len() > zoneStatementBytes || n == len(t.rows)-1 {
			all = append(all, text.String())
			text.Reset()
		}
	}
	return all
}

// zone are the rules of a time zone.
type zone struct {
	kinds       []zoneKind
	transitions []zoneTransition
}

type zoneKind struct {
	offset, dst  int
	abbreviation string
}

type zoneTransition struct {
	at   int64
	kind int
}

const secondsPerHour = 3600

// readZone reads the rules from 1970 on. That which holds before begins at the smallest time.
func readZone(location *time.Location) (z zone) {
	for at := int64(math.MinInt32); ; {
		t := time.Unix(max(at, 0), 0).In(location)
		kind := zoneKind{}
		kind.abbreviation, kind.offset = t.Zone()
		if t.IsDST() {
			kind.dst = 1
		}
		n := slices.Index(z.kinds, kind)
		if n < 0 {
			n = len(z.kinds)
			z.kinds = append(z.kinds, kind)
		}
		if last := len(z.transitions) - 1; last < 0 || z.transitions[last].kind != n {
			z.transitions = append(z.transitions, zoneTransition{at, n})
		}
		_, end := t.ZoneBounds()
		if end.IsZero() || end.Unix() > math.MaxInt32 {
			return z
		}
		// Where a rule holds, Go also ends a time span 365 days after each New Year, even on the last day of a leap year.
		at = max(end.Unix(), max(at, 0)+secondsPerHour)
	}
}

// LoadTimeZones fills the tables of named time zones of a dedicated server, unless they are filled.
func (on Setup) LoadTimeZones(ctx context.Context) error {
	there, err := on.HasTimeZones(ctx)
	if there || err != nil {
		return err
	}
	statements, err := TimeZones()
	if err != nil {
		return err
	}
	for _, statement := range statements {
		if _, err := on.s.reads.ExecContext(ctx, statement); err != nil {
			return on.s.explain("load the time zones", err)
		}
	}
	return nil
}

// HasTimeZones reports whether a server knows time zones by their names.
func (on Setup) HasTimeZones(ctx context.Context) (yes bool, err error) {
	err = on.s.reads.QueryRowContext(ctx,
		"SELECT CONVERT_TZ('2018-07-20 09:22:23', 'Europe/Zurich', 'UTC') IS NOT NULL").Scan(&yes)
	return yes, on.s.explain("find time zones", err)
}
