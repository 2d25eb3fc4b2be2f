package mysqladmin

import "strings"

// quoteIdentifier quotes a name for use in a statement. Values go in as arguments.
// https://dev.mysql.com/doc/refman/8.4/en/identifiers.html
func quoteIdentifier(name string) string {
	return "`" + strings.ReplaceAll(name, "`", "``") + "`"
}

// patternEscaper escapes what GRANT takes for wildcards.
var patternEscaper = strings.NewReplacer(`\`, `\\`, `_`, `\_`, `%`, `\%`)

// escapePattern escapes a database's name for GRANT, which takes a pattern: `a_b` would also match axb. mysql.db has
// the escaped name. https://dev.mysql.com/doc/refman/8.4/en/grant.html#grant-quoting
func escapePattern(database string) string {
	return patternEscaper.Replace(database)
}
