package catalog

import (
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// ParameterError is a developer's mistake in the parameters of a request: a 400 for the platform. Its text is one
// sentence that names the parameter and the accepted values. It never contains the given value.
type ParameterError struct {
	sentence string
}

func (e *ParameterError) Error() string { return e.sentence }

func parameterErrorf(format string, args ...any) error {
	return &ParameterError{fmt.Sprintf(format, args...)}
}

// violated returns a sentence that says which parameter violates which rule of the schema.
func violated(violation *jsonschema.ValidationError) error {
	if rule, ok := violation.ErrorKind.(*kind.Required); ok {
		return parameterErrorf("Parameter %q is missing.", rule.Missing[0])
	}
	if len(violation.InstanceLocation) == 0 {
		return parameterErrorf("The parameters break the rule %q of the plan's schema.", keyword(violation))
	}
	name := strings.Join(violation.InstanceLocation, ".")
	switch rule := violation.ErrorKind.(type) {
	case *kind.Type:
		return parameterErrorf("Parameter %q must be of type %s.", name, strings.Join(rule.Want, " or "))
	case *kind.Enum:
		return parameterErrorf("Parameter %q must be one of %s.", name, list(rule.Want))
	case *kind.Pattern:
		return parameterErrorf("Parameter %q must match the pattern \"%s\".", name, rule.Want)
	case *kind.MinLength:
		return parameterErrorf("Parameter %q must have at least %d characters.", name, rule.Want)
	case *kind.MaxLength:
		return parameterErrorf("Parameter %q must have at most %d characters.", name, rule.Want)
	case *kind.Minimum:
		return parameterErrorf("Parameter %q must be at least %s.", name, rule.Want.RatString())
	case *kind.Maximum:
		return parameterErrorf("Parameter %q must be at most %s.", name, rule.Want.RatString())
	default:
		return parameterErrorf("Parameter %q breaks the rule %q of the plan's schema.", name, keyword(violation))
	}
}

func keyword(violation *jsonschema.ValidationError) string {
	return strings.Join(violation.ErrorKind.KeywordPath(), ".")
}

func list(values []any) string {
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i] = fmt.Sprint(value)
	}
	return strings.Join(texts, ", ")
}
