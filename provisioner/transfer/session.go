package transfer

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// sessionValues are what a server computes for the rows of a table with settings of the session that writes them:
// stored generated columns and, on MySQL, where no session can turn them off, checks. A row is written with the
// settings under which it has the values that it has in the source.
type sessionValues struct {
	holds  string // the condition that a row has the values that the session would store
	checks string // the part of it for checks; "" for none

	mu       sync.Mutex
	settings []string // which other sessions may have had, those first that rows were found to be written with
}

// utcSession are the settings that others replace while some rows are read or written.
const utcSession = "time_zone = _utf8mb4'+00:00', lc_time_names = _utf8mb4'en_US'"

// zones are the offsets that time zones have. At any time, a named zone has one of them.
var zones = []string{"+01:00", "+02:00", "-05:00", "-04:00", "-08:00", "-07:00", "-06:00", "+08:00", "+09:00", "+05:30",
	"+03:00", "-03:00", "+10:00", "+11:00", "+07:00", "+04:00", "+05:00", "+06:00", "+12:00", "+13:00", "+14:00", "-01:00",
	"-02:00", "-09:00", "-10:00", "-11:00", "-12:00", "+03:30", "+04:30", "+05:45", "+06:30", "+08:45", "+09:30", "+10:30",
	"+12:45", "+13:45", "-02:30", "-03:30", "-04:30", "-09:30"}

// Errors of zones and locales that a server does not have.
var unknownSettings = []uint16{1298, 1649}

// locales are some of those for the names of months and days, and for numbers.
var locales = []string{"de_DE", "fr_FR", "es_ES", "pt_BR", "it_IT", "nl_NL", "pl_PL", "ru_RU", "tr_TR", "ja_JP",
	"zh_CN", "ko_KR", "en_GB", "sv_SE", "da_DK", "nb_NO", "fi_FI", "cs_CZ", "uk_UA", "de_CH", "de_AT", "fr_CA", "es_MX",
	"pt_PT"}

// Parts of what SHOW CREATE TABLE prints, with strings and names masked. Other checks are conditions of no session.
var (
	generatedLine = regexp.MustCompile(`^  (\x00\d+\x00) .*? GENERATED ALWAYS AS \((.*)\) (VIRTUAL|STORED|PERSISTENT)\b`)
	timestampLine = regexp.MustCompile(`^  (\x00\d+\x00) timestamp\b`)
	checkLine     = regexp.MustCompile(`^  CONSTRAINT \x00\d+\x00 CHECK \((.*)\),?$`)

	ofTimeZone = regexp.MustCompile(`(?i)\b(?:from_unixtime|unix_timestamp)\(`)
	ofLocale   = regexp.MustCompile(`(?i)\b(?:monthname|dayname|date_format|format)\(`)
)

// readSessionValues finds out what depends on the session. A generated column may use others.
func (t *table) readSessionValues(mariaDB bool) {
	create, texts := mask(t.Create)
	lines := strings.Split(create, "\n")
	var zoned, localized []string // masked names of columns
	uses := func(expression string, columns []string, functions *regexp.Regexp) bool {
		return functions.MatchString(expression) || slices.ContainsFunc(columns, func(name string) bool {
			return strings.Contains(expression, quoteName(name))
		})
	}
	var conditions []string
	inZone, inLocale := false, false
	depends := func(expression string) (zone, locale bool) {
		zone, locale = uses(expression, zoned, ofTimeZone), uses(expression, localized, ofLocale)
		return zone, locale
	}
	for _, line := range lines {
		if found := timestampLine.FindStringSubmatch(line); found != nil {
			zoned = append(zoned, unquoteName(texts.restore(found[1])))
		}
	}
	for _, line := range lines {
		found := generatedLine.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		name, expression := unquoteName(texts.restore(found[1])), texts.restore(found[2])
		zone, locale := depends(expression)
		if zone {
			zoned = append(zoned, name)
		}
		if locale {
			localized = append(localized, name)
		}
		at := slices.IndexFunc(t.Columns, func(c column) bool { return c.Name == name })
		if at >= 0 && (zone || locale) {
			conditions = append(conditions, t.Columns[at].is(expression))
			inZone, inLocale = inZone || zone, inLocale || locale
		}
	}
	var checks []string
	for _, line := range lines {
		if found := checkLine.FindStringSubmatch(line); found != nil && !mariaDB {
			expression := texts.restore(found[1])
			if zone, locale := depends(expression); zone || locale {
				checks = append(checks, "("+expression+") IS NOT FALSE")
				inZone, inLocale = inZone || zone, inLocale || locale
			}
		}
	}
	if conditions = append(conditions, checks...); len(conditions) == 0 {
		return
	}
	t.session = &sessionValues{holds: strings.Join(conditions, " AND "), checks: strings.Join(checks, " AND ")}
	if inZone {
		for _, z := range zones {
			t.session.settings = append(t.session.settings, "time_zone = '"+z+"'")
		}
	}
	if inLocale {
		for _, l := range locales {
			t.session.settings = append(t.session.settings, "lc_time_names = '"+l+"'")
		}
	}
}

var (
	lengthOf  = regexp.MustCompile(`\((\d+)\)`)
	decimalOf = regexp.MustCompile(`^decimal\(\d+,\d+\)`)
)

// is is the condition that a generated column has the value that its expression has in this session. The comparison of
// the rows that were written has the last word.
func (c column) is(expression string) string {
	length := lengthOf.FindString(c.full)
	as := ""
	switch c.Kind {
	case "date":
		as = "DATE"
	case "datetime", "timestamp":
		as = "DATETIME" + length
	case "time":
		as = "TIME" + length
	case "decimal":
		as = decimalOf.FindString(c.full)
	case "tinyint", "smallint", "mediumint", "int", "bigint":
		as = "SIGNED"
		if strings.Contains(c.full, "unsigned") {
			as = "UNSIGNED"
		}
	case "char", "varchar":
		return fmt.Sprintf("CAST(CONVERT(CAST(%s AS CHAR%s) USING %s) AS BINARY) <=> CAST(%s AS BINARY)", expression, length,
			c.Charset, quoteName(c.Name))
	}
	if as != "" {
		expression = "CAST(" + expression + " AS " + as + ")"
	}
	return "(" + expression + ") <=> " + quoteName(c.Name)
}

// rowHash identifies a row in sessions of every time zone.
func (t table) rowHash() string {
	t.Columns = slices.Clone(t.Columns)
	for n := range t.Columns {
		if c := &t.Columns[n]; c.Kind == "timestamp" {
			c.summed = "UNIX_TIMESTAMP(" + quoteName(c.Name) + ")"
		}
	}
	return "LEFT(SHA2(" + t.rowText() + ", 256), 32)" // MySQL no longer has MD5
}

// writtenWith returns the settings of those rows of a chunk that would not be the same if this session wrote them, by
// their hashes. Rows that no setting explains are absent, and refused if a check is the reason.
func (v *sessionValues) writtenWith(ctx context.Context, from *sql.Conn, k chunk) (map[string]string, error) {
	where := " WHERE "
	if limits := k.table.where(k); limits != "" {
		where = limits + " AND "
	}
	query := "SELECT " + k.table.rowHash() + " FROM " + k.table.from() + where
	unexplained := map[string]bool{}
	if err := eachRow(ctx, from, query+"NOT ("+v.holds+")", func(values []value) error {
		unexplained[hashOf(values[0])] = true
		return nil
	}); err != nil || len(unexplained) == 0 {
		if slices.Contains(expressionErrors, number(err)) { // so does writing the rows
			err = nil
		}
		return nil, err
	}
	v.mu.Lock()
	settings := slices.Clone(v.settings)
	v.mu.Unlock()
	with := map[string]string{}
	for _, setting := range settings {
		if len(unexplained) == 0 {
			break
		}
		_, err := from.ExecContext(ctx, "SET SESSION "+setting)
		if err == nil {
			err = eachRow(ctx, from, query+v.holds, func(values []value) error {
				if hash := hashOf(values[0]); unexplained[hash] {
					delete(unexplained, hash)
					with[hash] = setting
				}
				return nil
			})
			_, resetting := from.ExecContext(ctx, "SET SESSION "+utcSession)
			err = cmp.Or(err, resetting)
		}
		if err != nil && !slices.Contains(expressionErrors, number(err)) && !slices.Contains(unknownSettings, number(err)) {
			return nil, err
		}
	}
	v.prefer(with)
	if len(unexplained) == 0 || v.checks == "" {
		return with, nil
	}
	return with, eachRow(ctx, from, query+"NOT ("+v.checks+")", func(values []value) error {
		if unexplained[hashOf(values[0])] {
			return refused(nil, "Table %s has a row for which a check does not hold with any setting of the session that the "+
				"broker tries, such as the time zone. Write the check so that it does not depend on any.", k.table.Name)
		}
		return nil
	})
}

// prefer tries the settings that have explained rows before the others the next time.
func (v *sessionValues) prefer(with map[string]string) {
	rank := map[string]int{} // 0 for the others
	for _, setting := range with {
		rank[setting] = -1
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	slices.SortStableFunc(v.settings, func(a, b string) int { return rank[a] - rank[b] })
}

func hashOf(v value) string {
	if text, ok := v.([]byte); ok {
		return string(text)
	}
	return fmt.Sprint(v)
}
