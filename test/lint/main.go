// Command lint runs staticcheck and gosec: both in one program, which loads the packages once and caches what it found.
package main

import (
	"go/ast"
	"go/token"
	"os"
	"slices"
	"strings"

	"github.com/securego/gosec/v2/goanalysis"
	"golang.org/x/tools/go/analysis"
	"honnef.co/go/tools/analysis/lint"
	"honnef.co/go/tools/lintcmd"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"
	"honnef.co/go/tools/unused"
)

// excluded are rules of gosec that have no exceptions of their own, but whose findings in this program are all wrong.
// Other exceptions are argued at their line.
var excluded = []string{
	"G104",         // nobody can handle errors of Close after another error, and of answers to clients that have gone
	"G115",         // the numbers that are converted are file descriptors, user ids and counts of files
	"G117",         // the passwords that `mysql-broker dev` made are written to its own directory, with mode 0600
	"G120",         // no handler parses a form, and the rule takes minutes for functions with loops
	"G204", "G702", // the programs that are run are those that the operator names or installed
	"G304", "G703", // so are the files that are read
	"G301", "G302", "G306", // servers run as another user and have to reach what is made for them; secrets have mode 0600
}

func main() {
	command := lintcmd.NewCommand("lint")
	command.ParseFlags(os.Args[1:])
	command.AddAnalyzers(simple.Analyzers...)
	command.AddAnalyzers(staticcheck.Analyzers...)
	command.AddAnalyzers(stylecheck.Analyzers...)
	command.AddAnalyzers(unused.Analyzer, gosec())
	command.Run()
}

// gosec looks for what is insecure in all code but tests and what only tests use.
func gosec() *lint.Analyzer {
	wrapped := *goanalysis.Analyzer
	if err := wrapped.Flags.Set("exclude", strings.Join(excluded, ",")); err != nil {
		panic(err)
	}
	wrapped.Run = func(pass *analysis.Pass) (any, error) {
		if strings.Contains(pass.Pkg.Path()+"/", "/test/") {
			return nil, nil
		}
		product := *pass
		ofTest := func(at token.Pos) bool { return strings.HasSuffix(pass.Fset.Position(at).Filename, "_test.go") }
		product.Files = slices.DeleteFunc(slices.Clone(pass.Files), func(f *ast.File) bool { return ofTest(f.Pos()) })
		if len(product.Files) == 0 {
			return nil, nil
		}
		product.Report = func(d analysis.Diagnostic) {
			if !ofTest(d.Pos) {
				d.Category = wrapped.Name // its message names the rule
				pass.Report(d)
			}
		}
		return goanalysis.Analyzer.Run(&product)
	}
	return &lint.Analyzer{Analyzer: &wrapped, Doc: &lint.RawDocumentation{Title: wrapped.Doc}}
}
