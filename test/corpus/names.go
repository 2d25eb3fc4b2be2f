package corpus

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// names gives what a file creates another name if the database has such a name already. The files drop what they
// created, and create it anew, some hundred times; here all of it stays.
type names struct {
	owner map[string]string // by name in lower case, the file that created the object
	count int

	file    string
	renamed map[string]string // the present name of what this file calls so
	dropped map[string]bool
}

func (n *names) begin(file string) {
	n.file, n.renamed, n.dropped = file, map[string]string{}, map[string]bool{}
}

const anyName = "(?:`(?:[^`]|``)+`|[^\\s`\"'(),;.]+)"

var (
	creates = regexp.MustCompile(`(?is)^\s*create\s+(?:or\s+replace\s+)?(?:(?:algorithm|definer)\s*=\s*\S+\s+)*` +
		`(?:sql\s+security\s+\w+\s+)?(?:aggregate\s+)?(?:json\s+(?:relational\s+)?duality\s+)?` +
		`(table|view|procedure|function|trigger|event|sequence|package|library)\s+(?:if\s+not\s+exists\s+)?(` + anyName + `)`)
	drops = regexp.MustCompile(`(?is)^\s*drop\s+(?:tables?|view|procedure|function|trigger|event|sequence|package|library|database|` +
		`schema)\s+(?:if\s+exists\s+)?(.*)$`)
	qualifier = regexp.MustCompile("(?i)(?:`test`|\\btest)\\s*\\.\\s*")
	word      = regexp.MustCompile("(?s)'(?:[^'\\\\]|\\\\.|'')*'|\"(?:[^\"\\\\]|\\\\.|\"\")*\"|`(?:[^`]|``)+`|@*[\\w$]+")
	numbered  = regexp.MustCompile(`^[A-Za-z_]+\d+$`)
)

// bare is a name in lower case, without its quotes. One that is not in UTF-8 stays as it is.
func bare(name string) string {
	name = strings.ReplaceAll(strings.Trim(name, "`"), "``", "`")
	if utf8.ValidString(name) {
		name = strings.ToLower(name)
	}
	return name
}

// rewrite returns a statement with the names that its objects have. It is not to be run if it drops one.
func (n *names) rewrite(statement string) (rewritten string, run bool) {
	statement = qualifier.ReplaceAllString(statement, "")
	if found := drops.FindStringSubmatch(statement); found != nil {
		for _, name := range word.FindAllString(found[1], -1) {
			n.dropped[bare(name)] = true
		}
		return statement, false
	}
	if found := creates.FindStringSubmatch(statement); found != nil && !strings.EqualFold(found[2], "body") {
		name := bare(found[2])
		present := name
		if other, renamed := n.renamed[name]; renamed {
			present = other
		}
		if owner, taken := n.owner[present]; taken && (owner != n.file || n.dropped[name]) {
			n.rename(name)
			present = n.renamed[name]
		}
		delete(n.dropped, name)
		n.owner[present] = n.file
	}
	return word.ReplaceAllStringFunc(statement, func(text string) string {
		if strings.IndexByte(`'"@`, text[0]) >= 0 {
			return text
		}
		name := bare(text)
		if owner, taken := n.owner[name]; taken && owner != n.file && n.renamed[name] == "" && numbered.MatchString(name) {
			n.rename(name) // of another file, which is not to be changed
		}
		switch present, renamed := n.renamed[name]; {
		case !renamed:
			return text
		case text[0] == '`':
			return "`" + strings.ReplaceAll(present, "`", "``") + "`"
		default:
			return present
		}
	}), true
}

func (n *names) rename(name string) {
	n.count++
	n.renamed[name] = fmt.Sprintf("%.50s_%d", name, n.count)
}
