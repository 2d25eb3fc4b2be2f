package transfer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

func quoteName(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

func unquoteName(name string) string { return strings.ReplaceAll(name[1:len(name)-1], "``", "`") }

// column is a column whose values are copied.
type column struct {
	Name     string `json:"name"`
	Kind     string `json:"kind"`              // DATA_TYPE in information_schema, in lower case
	Charset  string `json:"charset,omitempty"` // "" for a column that is not of characters
	Nullable bool   `json:"nullable,omitempty"`
	// Numbered says that it is an ENUM or SET, whose values are read as numbers: two of them can have the same text.
	Numbered bool `json:"numbered,omitempty"`
	Stored   bool `json:"stored,omitempty"` // generated: its value is compared, not written

	full   string // COLUMN_TYPE in information_schema
	summed string // an expression to sum up instead of the value, "" for the value itself
}

var (
	integers = []string{"tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit"}
	binaries = []string{"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "geometry", "point",
		"linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geomcollection", "geometrycollection",
		"vector"}
	long = []string{"tinyblob", "blob", "mediumblob", "longblob", "tinytext", "text", "mediumtext", "longtext", "json",
		"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geomcollection",
		"geometrycollection", "vector"}
	// ordered are the types of keys by which a table is divided. Sets and enums compare differently from how they sort.
	ordered = []string{"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "date", "datetime", "timestamp",
		"char", "varchar", "binary", "varbinary"}
)

// expression reads a value exactly. As they are, FLOATs lose digits and BITs are raw bytes. A product keeps the sign of
// -0, which a sum does not.
func (c column) expression() string {
	name := quoteName(c.Name)
	switch {
	case c.Numbered:
		return "CAST(" + name + " AS UNSIGNED)"
	case c.Kind == "float":
		return name + "*1e0"
	case c.Kind == "bit":
		return name + "+0"
	}
	return name
}

// sum is an expression for the checksum of a row. A long value is summed by itself: the server would take a row that is
// longer than max_allowed_packet for NULL. MySQL can store types in JSON that no text has: the decimal 1.10 is copied
// as the number 1.1, so that what its text says is summed.
func (c column) sum() string {
	switch {
	case c.summed != "":
		return c.summed
	case c.Kind == "json":
		text := "CAST(CONVERT(" + quoteName(c.Name) + " USING utf8mb4) AS JSON)"
		return "CRC32(" + text + "),LENGTH(" + text + ")"
	case slices.Contains(long, c.Kind):
		return "CRC32(" + quoteName(c.Name) + "),LENGTH(" + quoteName(c.Name) + ")"
	case c.Charset != "" && !c.Numbered:
		return "CAST(" + quoteName(c.Name) + " AS BINARY)" // columns may have different character sets
	}
	return c.expression()
}

// append appends a value as a literal. The connection that read it converts no character sets.
func (c column) append(to []byte, value any) []byte {
	switch v := value.(type) {
	case nil:
		return append(to, "NULL"...)
	case int64:
		return strconv.AppendInt(to, v, 10)
	case uint64:
		return strconv.AppendUint(to, v, 10)
	case float64:
		return append(strconv.AppendFloat(append(to, '\''), v, 'g', -1, 64), '\'')
	case float32:
		return append(strconv.AppendFloat(append(to, '\''), float64(v), 'g', -1, 32), '\'')
	case []byte:
		return c.appendText(to, v)
	case string:
		return c.appendText(to, []byte(v))
	}
	panic(fmt.Sprintf("the driver returned a %T", value))
}

func (c column) appendText(to, text []byte) []byte {
	if c.Numbered || slices.Contains(integers, c.Kind) {
		return append(to, text...)
	}
	return appendQuoted(append(to, c.introducer()...), text)
}

// introducer names the character set of the string that follows it.
func (c column) introducer() string {
	switch {
	case slices.Contains(binaries, c.Kind):
		return "_binary"
	case c.Charset != "" && c.Charset != "utf8mb4": // which is that of the connection
		return "_" + c.Charset
	}
	return ""
}

// keyLiteral returns a value of a key as a literal that can be encoded as JSON, as backups do.
func (c column) keyLiteral(v value) string {
	literal := string(c.append(nil, v))
	if text, ok := v.([]byte); ok && !utf8.ValidString(literal) {
		return fmt.Sprintf("%s x'%x'", c.introducer(), text)
	}
	return literal
}

// appendQuoted escapes bytes as the server expects them without NO_BACKSLASH_ESCAPES.
// https://dev.mysql.com/doc/refman/8.4/en/string-literals.html
func appendQuoted(to, text []byte) []byte {
	to = append(to, '\'')
	for {
		n := slices.IndexFunc(text, func(b byte) bool {
			return b == 0 || b == '\n' || b == '\r' || b == '\\' || b == '\'' || b == '"' || b == 26
		})
		if n < 0 {
			return append(append(to, text...), '\'')
		}
		to = append(append(to, text[:n]...), '\\')
		switch text[n] {
		case 0:
			to = append(to, '0')
		case '\n':
			to = append(to, 'n')
		case '\r':
			to = append(to, 'r')
		case 26:
			to = append(to, 'Z')
		default:
			to = append(to, text[n])
		}
		text = text[n+1:]
	}
}
