package wsrep

import "strings"

// noDDL are the words with which statements begin that a node does not execute for the whole cluster. For those of
// routines, events and EXECUTE IMMEDIATE, the process list has the statement within.
var noDDL = map[string]bool{"SELECT": true, "INSERT": true, "UPDATE": true, "DELETE": true, "REPLACE": true,
	"WITH": true, "VALUES": true, "LOAD": true, "LOCK": true, "HANDLER": true, "CALL": true, "DO": true, "SHOW": true,
	"EXPLAIN": true, "DESC": true, "DESCRIBE": true, "CHECK": true, "CHECKSUM": true, "BEGIN": true, "START": true,
	"COMMIT": true, "ROLLBACK": true, "SAVEPOINT": true, "XA": true, "USE": true, "KILL": true}

// maybeDDL reports whether a statement may be DDL. SET STATEMENT may have DDL at its end.
func maybeDDL(text string) bool {
	text = withoutComments(text)
	end := strings.IndexFunc(text, func(r rune) bool { return (r|0x20) < 'a' || (r|0x20) > 'z' })
	if end < 0 {
		end = len(text)
	}
	return !noDDL[strings.ToUpper(text[:end])]
}

// withoutComments removes what comes before the first word of a statement. MariaDB executes what is in a comment that
// begins with an exclamation mark.
func withoutComments(text string) string {
	for {
		text = strings.TrimLeft(text, " \t\r\n\f\v(")
		end := ""
		switch {
		case strings.HasPrefix(text, "/*!"), strings.HasPrefix(text, "/*M!"):
			return text
		case strings.HasPrefix(text, "/*"):
			end = "*/"
		case strings.HasPrefix(text, "--"), strings.HasPrefix(text, "#"):
			end = "\n"
		default:
			return text
		}
		_, text, _ = strings.Cut(text, end)
	}
}
