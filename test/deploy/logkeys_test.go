package deploy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The table of log keys in docs/operations.md names every key that the broker logs, and no other.
func TestLogKeysAreDocumented(t *testing.T) {
	t.Parallel()
	const document = "docs/operations.md"
	documented := keysOfTable(readFile(t, document))
	assert.NotEmpty(t, documented, "%s has no table that begins with | key |", document)
	logged := map[string]string{}
	for _, file := range knownFiles(t, "cmd/*.go", "broker/*.go", "provisioner/*.go", "store/*.go") {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		keys, problems := logKeys(t, file)
		assert.Empty(t, problems)
		maps.Copy(logged, keys)
	}
	for key, where := range logged {
		assert.True(t, slices.Contains(documented, key),
			"%s: the log key %q is not in the table of %s: use one that is, or add a line", where, key, document)
	}
	for _, key := range documented {
		assert.NotEmpty(t, logged[key], "%s: nothing logs the key %q any more: delete its line", document, key)
	}
	assert.True(t, slices.IsSorted(documented), "%s: the log keys are not in order", document)
}

var firstCell = regexp.MustCompile("^\\| `([a-z_]+)` \\|")

func keysOfTable(text string) (keys []string) {
	_, table, _ := strings.Cut(text, "\n| key |")
	for _, line := range strings.Split(table, "\n")[min(2, strings.Count(table, "\n")):] {
		m := firstCell.FindStringSubmatch(line)
		if m == nil {
			break
		}
		keys = append(keys, m[1])
	}
	return keys
}

// A method of slog.Logger, and how many arguments it has before the first key.
var loggerMethods = map[string]int{
	"Debug": 1, "Info": 1, "Warn": 1, "Error": 1, "With": 0,
	"DebugContext": 2, "InfoContext": 2, "WarnContext": 2, "ErrorContext": 2, "Log": 3, "LogAttrs": 3,
}

var attributes = []string{"String", "Int", "Int64", "Uint64", "Float64", "Bool", "Time", "Duration", "Any", "Group"}

var loggers = []string{"log", "Log", "logger", "Logger", "slog", "line"}

// logKeys returns the keys that a file logs, each with a place where it does. Problems are keys that cannot be read from
// the code.
func logKeys(t *testing.T, file string) (keys map[string]string, problems []string) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, path(file), nil, 0)
	require.NoError(t, err)
	keys = map[string]string{}
	at := func(n ast.Node) string { return fmt.Sprintf("%s:%d", file, set.Position(n.Pos()).Line) }
	report := func(n ast.Node, problem string) { problems = append(problems, at(n)+": "+problem) }
	key := func(e ast.Expr) {
		if !isString(e) {
			report(e, "a log key that is no string constant, which the test of log keys cannot read")
			return
		}
		name, _ := strconv.Unquote(e.(*ast.BasicLit).Value)
		keys[name] = at(e)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		of, method := selector(call.Fun)
		switch first, logs := loggerMethods[method]; {
		case of == "slog" && slices.Contains(attributes, method):
			key(call.Args[0])
		case logs && slices.Contains(loggers, of) && len(call.Args) > first:
			arguments := call.Args[first:]
			if call.Ellipsis.IsValid() && method != "LogAttrs" {
				report(call, "log a list of attributes with LogAttrs, which takes those with slog.String and the like only")
				return true
			}
			for len(arguments) > 0 && method != "LogAttrs" {
				if isAttribute(arguments[0]) {
					arguments = arguments[1:]
					continue
				}
				key(arguments[0])
				arguments = arguments[min(2, len(arguments)):]
			}
		case logs && of != "http" && of != "t" && len(call.Args) > 1 && isString(call.Args[0]):
			report(call, "a logger that the test of log keys does not know: name it log, logger or line")
		}
		return true
	})
	return keys, problems
}

// selector returns the last name of what a method is called on, and the method.
func selector(e ast.Expr) (of, method string) {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	switch x := s.X.(type) {
	case *ast.Ident:
		return x.Name, s.Sel.Name
	case *ast.SelectorExpr:
		return x.Sel.Name, s.Sel.Name
	}
	return "", s.Sel.Name
}

func isString(e ast.Expr) bool {
	literal, ok := e.(*ast.BasicLit)
	return ok && literal.Kind == token.STRING
}

func isAttribute(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	of, method := selector(call.Fun)
	return of == "slog" && slices.Contains(attributes, method)
}
