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

// get returns the value of key if it is present and of type T. Another type, including null, is a problem.
func get[T any](o *object, key, want string) (value T, ok bool) {
	if !o.has(key) {
		return value, false
	}
	if value, ok = o.fields[key].value.value.(T); !ok {
		o.reject(key, want)
	}
	return value, ok
}

func (o *object) text(key string) string {
	const want = "a string that is not blank"
	o.require(key)
	value, ok := get[string](o, key, want)
	if ok && strings.TrimSpace(value) == "" {
		o.reject(key, want)
	}
	return value
}

// oneOf returns the value of a required key, or "" if it is none of the choices.
func (o *object) oneOf(key string, choices ...string) string {
	want := "one of " + strings.Join(choices, ", ")
	o.require(key)
	value, ok := get[string](o, key, want)
	if !ok {
		return ""
	}
	if !slices.Contains(choices, value) {
		o.reject(key, want)
		return ""
	}
	return value
}

func (o *object) flag(key string) *bool {
	value, ok := get[bool](o, key, "true or false")
	if !ok {
		return nil
	}
	return &value
}

// positive returns the value of an optional key, or nil if it is absent or not a positive whole number.
func (o *object) positive(key string) *int {
	const want = "a whole number above 0"
	value, ok := get[int](o, key, want)
	if !ok {
		return nil
	}
	if value <= 0 {
		o.reject(key, want)
		return nil
	}
	return &value
}

func (o *object) object(key string) (*object, bool) {
	if _, ok := get[[]field](o, key, "an object"); !ok {
		return nil, false
	}
	return asObject(o.fields[key].value, key, o.found)
}

// objects returns the items of a required list that must not be empty.
func (o *object) objects(key, what string) []*object {
	want := "a list with at least one item"
	if !o.require(key) {
		return nil
	}
	items, ok := get[[]*node](o, key, want)
	if !ok {
		return nil
	}
	if len(items) == 0 {
		o.reject(key, want)
	}
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
	items, _ := get[[]*node](o, key, want)
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

func newIdentities() identities {
	return identities{map[string]int{}, map[string]int{}, map[string]int{}}
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
