package catalog

import (
	"errors"
	"fmt"
	"math"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxNodes limits a catalog with its aliases expanded, because a few nested aliases can expand to billions of values.
const maxNodes = 100_000

// node is a YAML value with its aliases expanded.
type node struct {
	line  int // in the file, from 1
	size  int // itself and all below it
	value any // nil, string, bool, int, float64, []*node or []field
}

type field struct {
	key   string
	line  int
	value *node
}

// plain returns the value as encoding/json would decode it.
func (n *node) plain() any {
	switch value := n.value.(type) {
	case []*node:
		list := make([]any, len(value))
		for i, item := range value {
			list[i] = item.plain()
		}
		return list
	case []field:
		object := make(map[string]any, len(value))
		for _, f := range value {
			object[f.key] = f.value.plain()
		}
		return object
	default:
		return value
	}
}

// parseYAML returns the only document in data. It returns nil if it reported a problem that hides all others.
func parseYAML(data []byte, found *problems) *node {
	file, err := parseFile(data)
	if err != nil {
		line, message := 1, err.Error()
		var syntax yaml.Error
		if errors.As(err, &syntax) && syntax.GetToken() != nil {
			line, message = syntax.GetToken().Position.Line, syntax.GetMessage()
		}
		found.add(line, "the YAML cannot be read: %s", message)
		return nil
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		found.add(1, "the file must hold one YAML document")
		return nil
	}
	b := treeBuilder{anchors: map[string]*node{}, found: found}
	root := b.build(file.Docs[0].Body)
	if root.size > maxNodes {
		found.add(root.line, "the catalog has more than %d values, aliases followed", maxNodes)
		return nil
	}
	return root
}

// parseFile returns the parser's panics, which some malformed input causes, as errors.
func parseFile(data []byte) (file *ast.File, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("the parser failed: %v", cause)
		}
	}()
	return parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
}

type treeBuilder struct {
	anchors map[string]*node
	found   *problems
}

func (b *treeBuilder) build(from ast.Node) *node {
	n := &node{line: from.GetToken().Position.Line, size: 1}
	switch from := from.(type) {
	case *ast.MappingNode:
		b.buildMapping(n, from)
	case *ast.SequenceNode:
		b.buildSequence(n, from)
	case *ast.AnchorNode:
		n = b.build(from.Value)
		b.anchors[from.Name.GetToken().Value] = n
	case *ast.AliasNode:
		if target, ok := b.anchors[from.Value.GetToken().Value]; ok {
			return target
		}
		b.found.add(n.line, "the alias %q has no anchor above it", from.Value.GetToken().Value)
	case *ast.LiteralNode:
		n.value = from.Value.Value
	case *ast.StringNode:
		n.value = from.Value
	case *ast.BoolNode:
		n.value = from.Value
	case *ast.IntegerNode:
		n.value = b.integer(n.line, from)
	case *ast.FloatNode:
		n.value = from.Value
	case *ast.NullNode:
	default:
		b.found.add(n.line, "%s has no place in a catalog", from.Type())
	}
	return n
}

func (b *treeBuilder) buildMapping(n *node, from *ast.MappingNode) {
	first := map[string]int{}
	fields := make([]field, 0, len(from.Values))
	for _, pair := range from.Values {
		key, ok := pair.Key.(*ast.StringNode)
		if !ok {
			b.found.add(pair.Key.GetToken().Position.Line, "keys must be strings; merge keys are not followed")
			continue
		}
		f := field{key: key.Value, line: key.Token.Position.Line, value: b.build(pair.Value)}
		if line, repeated := first[f.key]; repeated {
			b.found.add(f.line, "the key %q is already on line %d", f.key, line)
			continue
		}
		first[f.key] = f.line
		fields = append(fields, f)
		n.grow(f.value)
	}
	n.value = fields
}

func (b *treeBuilder) buildSequence(n *node, from *ast.SequenceNode) {
	items := make([]*node, 0, len(from.Values))
	for _, value := range from.Values {
		item := b.build(value)
		items = append(items, item)
		n.grow(item)
	}
	n.value = items
}

// grow adds the size of a child. It stops just above maxNodes, so that it cannot overflow.
func (n *node) grow(child *node) {
	n.size = min(n.size+child.size, maxNodes+1)
}

func (b *treeBuilder) integer(line int, from *ast.IntegerNode) any {
	switch value := from.Value.(type) {
	case int64:
		return int(value)
	case uint64:
		if value <= math.MaxInt {
			return int(value)
		}
	}
	b.found.add(line, "the number is out of range")
	return nil
}
