package dashboard

import (
	"io"
	"reflect"
	"testing"
	texttemplate "text/template"
	"text/template/parse"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The compiler does not know which fields templates read. So each template is executed with everything that its page
// may have, both branches of each condition.
func TestTemplatesReadWhatPagesHave(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]any{"instance.html": &instancePage{}, "overview.html": &overviewPage{},
		"refusal.html": &refusal{}} {
		all := texttemplate.New("").Funcs(texttemplate.FuncMap(functions)) // does not ask in which context HTML is
		for _, one := range templates[name].Templates() {
			if one.Tree != nil {
				tree := one.Tree.Copy()
				flatten(tree.Root)
				_, err := all.AddParseTree(one.Name(), tree)
				require.NoError(t, err)
			}
		}
		fill(reflect.ValueOf(content).Elem())
		assert.NoError(t, all.ExecuteTemplate(io.Discard, "layout", page{Content: content}), name)
	}
}

// flatten replaces conditions by what they ask, and what stands in both branches.
func flatten(list *parse.ListNode) {
	if list == nil {
		return
	}
	var nodes []parse.Node
	of := func(b *parse.BranchNode) []parse.Node {
		flatten(b.List)
		flatten(b.ElseList)
		if b.ElseList == nil {
			return nil
		}
		others := b.ElseList.Nodes
		b.ElseList = nil
		return others
	}
	for _, n := range list.Nodes {
		switch n := n.(type) {
		case *parse.IfNode:
			others := of(&n.BranchNode)
			asked := &parse.ActionNode{NodeType: parse.NodeAction, Pos: n.Pos, Line: n.Line, Pipe: n.Pipe}
			nodes = append(append(append(nodes, asked), n.List.Nodes...), others...)
		case *parse.WithNode:
			nodes = append(nodes, append([]parse.Node{n}, of(&n.BranchNode)...)...)
		case *parse.RangeNode:
			nodes = append(nodes, append([]parse.Node{n}, of(&n.BranchNode)...)...)
		default:
			nodes = append(nodes, n)
		}
	}
	list.Nodes = nodes
}

// fill sets everything in a value that can be set.
func fill(v reflect.Value) {
	if !v.CanSet() {
		return
	}
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(noon))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for n := range v.NumField() {
			fill(v.Field(n))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Float64:
		v.SetFloat(1)
	}
}
