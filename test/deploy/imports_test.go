package deploy

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "mysql-broker/"

// The picture of the packages in docs/architecture.md is the import graph: it has every package of the module, and each
// imports those on lower lines only.
func TestPictureIsTheImportGraph(t *testing.T) {
	t.Parallel()
	const document = "docs/architecture.md"
	assert.Empty(t, comparePicture(picture(readFile(t, document)), importGraph(t)), document)
}

// Authors of brokers for other databases copy these packages.
func TestEngineKnowsNothingOfMySQL(t *testing.T) {
	t.Parallel()
	list := exec.Command("go", "list", "-deps", "./provisioner/engine", "./provisioner/task", "./provisioner/plan")
	list.Dir = path("")
	out, err := list.Output()
	require.NoError(t, err)
	assert.NotRegexp(t, "(?m)^(github.com/go-sql-driver/|"+module+"provisioner/mysqladmin)", string(out), "they import")
}

// comparePicture returns what is wrong with a picture, which says what line each package is on.
func comparePicture(lines map[string]int, imports map[string][]string) (problems []string) {
	for name, line := range lines {
		_, exists := imports[name]
		if below, all := strings.CutSuffix(name, "…"); all {
			for other := range imports {
				exists = exists || strings.HasPrefix(other, below)
			}
		}
		if !exists {
			problems = append(problems, fmt.Sprintf("line %d: there is no package %s; delete it", line, name))
		}
	}
	for name, imported := range imports {
		line := lineOf(lines, name)
		if line == 0 {
			problems = append(problems, name+" is missing: add it above what it imports")
			continue
		}
		for _, other := range imported {
			to := lineOf(lines, other)
			if to != 0 && to <= line && (to != line || !sameEllipsis(lines, name, other)) {
				problems = append(problems, fmt.Sprintf("line %d: %s imports %s of line %d, and arrows point down only; "+
					"put %[1]d above %[4]d, or remove the import", line, name, other, to))
			}
		}
	}
	slices.Sort(problems)
	return problems
}

// lineOf returns the line that a package is on, by its name or by "e/…" for all below e; 0 if none.
func lineOf(lines map[string]int, name string) int {
	if line := lines[name]; line != 0 {
		return line
	}
	return lines[ellipsis(lines, name)]
}

func ellipsis(lines map[string]int, name string) string {
	for all := range lines {
		if below, ok := strings.CutSuffix(all, "…"); ok && strings.HasPrefix(name, below) {
			return all
		}
	}
	return ""
}

func sameEllipsis(lines map[string]int, a, b string) bool {
	return ellipsis(lines, a) != "" && ellipsis(lines, a) == ellipsis(lines, b)
}

// A line of the picture: what draws the tree, packages with a slash (or "/…") at the end, and after two spaces what
// they are for.
var pictureLine = regexp.MustCompile(`^([ │├└─]*)((?:[a-z0-9-]+/)+…?(?:, (?:[a-z0-9-]+/)+…?)*)(?:  |$)`)

// picture reads the first block of a document that draws packages: the line of each one.
func picture(document string) map[string]int {
	type parent struct {
		column int
		name   string
	}
	lines := map[string]int{}
	var parents []parent
	fenced := false
	for n, line := range strings.Split(document, "\n") {
		if strings.HasPrefix(line, "```") {
			if fenced && len(lines) > 0 {
				break
			}
			fenced = !fenced
		}
		m := pictureLine.FindStringSubmatch(line)
		if !fenced || m == nil {
			continue
		}
		column := utf8.RuneCountInString(m[1])
		parents = slices.DeleteFunc(parents, func(p parent) bool { return p.column >= column })
		above := ""
		if len(parents) > 0 {
			above = parents[len(parents)-1].name + "/"
		}
		var name string
		for _, each := range strings.Split(m[2], ", ") {
			name = above + strings.TrimSuffix(each, "/")
			lines[name] = n + 1
		}
		parents = append(parents, parent{column, name})
	}
	return lines
}

// importGraph returns the packages of the module, each with those of the module that it imports, in any build.
func importGraph(t *testing.T) map[string][]string {
	t.Helper()
	graph := map[string][]string{}
	for _, tags := range []string{"", "faults"} {
		list := exec.Command("go", "list", "-tags="+tags, "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...")
		list.Dir = path("")
		out, err := list.Output()
		require.NoError(t, err)
		for line := range strings.Lines(string(out)) {
			name, imports, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), module), " ")
			own := graph[name]
			for imported := range strings.FieldsSeq(imports) {
				if other, ours := strings.CutPrefix(imported, module); ours && !slices.Contains(own, other) {
					own = append(own, other)
				}
			}
			graph[name] = own
		}
	}
	return graph
}

var walkRow = regexp.MustCompile("(?m)^\\| `([A-Za-z]+)` \\| `([a-z/]+\\.go)` \\|")

// The functions in the walk of a provision are in the files that docs/architecture.md names, and they are at most twelve.
func TestWalkOfAProvision(t *testing.T) {
	t.Parallel()
	rows := walkRow.FindAllStringSubmatch(readFile(t, "docs/architecture.md"), -1)
	assert.True(t, len(rows) >= 5 && len(rows) <= 12,
		"docs/architecture.md: the walk of a provision has %d functions, and should have at most 12", len(rows))
	for _, row := range rows {
		function, file := row[1], row[2]
		assert.True(t, regexp.MustCompile(`(?m)^func (\([^)]*\) )?`+function+`\(`).MatchString(readFile(t, file)),
			"docs/architecture.md: %s has no function %s: name the one that took its place", file, function)
	}
}
