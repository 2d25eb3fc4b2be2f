package catalog

import (
	"maps"
	"slices"
	"strings"
)

// object reads the keys of one YAML mapping. Keys that were not read before close are unknown keys.
type object struct {
	what   string // as problems name it: "the plan"
	line   int
	fields map[string]field
	asked  map[string]bool
	found  *problems
}

func asObject(n *node, what string, found *problems) (*object, bool) {
	fields, ok := n.value.([]field)
	if !ok {
		found.add(n.line, "%s must be an object", what)
		return nil, false
	}
	o := &object{what: what, line: n.line, fields: map[string]field{}, asked: map[string]bool{}, found: found}
	for _, f := range fields {
		o.fields[f.key] = f
	}
	return o, true
}

func (o *object) plain() map[string]any {
	values := make(map[string]any, len(o.fields))
	for key, f := range o.fields {
		values[key] = f.value.plain()
	}
	return values
}

// close reports the keys that were not read.
func (o *object) close() {
	for key, f := range o.fields {
		if !o.asked[key] {
			known := strings.Join(slices.Sorted(maps.Keys(o.asked)), ", ")
			o.found.add(f.line, "%q is not a key of %s; its keys are %s", key, o.what, known)
		}
	}
}

func (o *object) has(key string) bool {
	o.asked[key] = true
	_, present := o.fields[key]
	return present
}

// require reports whether key is present. It adds a problem if the key is absent.
func (o *object) require(key string) bool {
	present := o.has(key)
	if !present {
		o.found.add(o.line, "%s has no %q", o.what, key)
	}
	return present
}

func (o *object) reject(key, want string) {
	o.found.add(o.fields[key].line, "%q of %s must be %s", key, o.what, want)
}

// get returns the value of an optional key; nil if it is absent, or reported because it is no T, as null is not, or not
// valid.
func get[T any](o *object, key, want string, valid func(T) bool) *T {
	if !o.has(key) {
		return nil
	}
	value, ok := o.fields[key].value.value.(T)
	if !ok || valid != nil && !valid(value) {
		o.reject(key, want)
		return nil
	}
	return &value
}

// keep stores a value that the catalog has.
func keep[T any](found, into *T) {
	if found != nil {
		*into = *found
	}
}

// text returns the value of a required key.
func (o *object) text(key string) (value string) {
	o.require(key)
	keep(o.optional(key), &value)
	return value
}

func (o *object) optional(key string) *string {
	return get(o, key, "a string that is not blank", func(s string) bool { return strings.TrimSpace(s) != "" })
}

// choose stores the value of an optional key that is one of the choices.
func choose[T ~string](o *object, key string, into *T, choices ...T) {
	var texts []string
	for _, c := range choices {
		texts = append(texts, string(c))
	}
	value := get(o, key, "one of "+strings.Join(texts, ", "), func(s string) bool { return slices.Contains(texts, s) })
	if value != nil {
		*into = T(*value)
	}
}

func (o *object) flag(key string) *bool { return get[bool](o, key, "true or false", nil) }

func (o *object) positive(key string) *int {
	return get(o, key, "a whole number above 0", func(n int) bool { return n > 0 })
}

func (o *object) object(key string) (*object, bool) {
	if get[[]field](o, key, "an object", nil) == nil {
		return nil, false
	}
	return asObject(o.fields[key].value, key, o.found)
}

// objects returns the items of a required list that must not be empty.
func (o *object) objects(key, what string) []*object {
	o.require(key)
	var items []*node
	keep(get(o, key, "a list with at least one item", func(items []*node) bool { return len(items) > 0 }), &items)
	var objects []*object
	for _, item := range items {
		if object, ok := asObject(item, what, o.found); ok {
			objects = append(objects, object)
		}
	}
	return objects
}

func (o *object) strings(key string) []string {
	const want = "a list of strings"
	var items []*node
	keep(get[[]*node](o, key, want, nil), &items)
	var values []string
	for _, item := range items {
		value, ok := item.value.(string)
		if !ok {
			o.reject(key, want)
			return nil
		}
		values = append(values, value)
	}
	return values
}

// identities maps the ids and names in use to the line of their first use.
type identities struct {
	serviceIDs, serviceNames, planIDs map[string]int
}

// unique returns the text of a required key, and reports a text that is already in use.
func (o *object) unique(key string, taken map[string]int) string {
	value := o.text(key)
	if value == "" {
		return ""
	}
	if line, repeated := taken[value]; repeated {
		o.found.add(o.fields[key].line, "%q of %s repeats the one on line %d", key, o.what, line)
		return value
	}
	taken[value] = o.fields[key].line
	return value
}
