package catalog

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
