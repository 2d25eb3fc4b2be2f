package catalog

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"mysql-broker/provisioner/plan"
)

// InstanceParameters checks the parameters of a provision request; raw is empty if the request has none. The error
// is a *ParameterError, or ErrUnknownPlan.
func (c *Catalog) InstanceParameters(planID string, raw json.RawMessage) (plan.InstanceParameters, error) {
	p, err := c.plan(planID)
	if err != nil {
		return plan.InstanceParameters{}, err
	}
	given, err := p.create.check(raw)
	if err != nil {
		return plan.InstanceParameters{}, err
	}
	for _, name := range []string{"charset", "collation"} {
		if given["clone_from"] != "" && given[name] != "" {
			return plan.InstanceParameters{}, parameterErrorf("Parameters %q and %q exclude each other: a copy has the "+
				"character set of its source.", "clone_from", name)
		}
	}
	if len(given["bootstrap"]) > maxBootstrap {
		return plan.InstanceParameters{}, parameterErrorf("Parameter %q must be at most 64 KiB.", "bootstrap")
	}
	return plan.InstanceParameters{Charset: given["charset"], Collation: given["collation"],
		CloneFrom: given["clone_from"], Bootstrap: given["bootstrap"]}, nil
}

// maxBootstrap is how many bytes of SQL a request may have.
const maxBootstrap = 64 << 10

// UpdateParameters checks the parameters of an update request, as InstanceParameters does. No parameter can be changed,
// so it returns only an error.
func (c *Catalog) UpdateParameters(planID string, raw json.RawMessage) error {
	p, err := c.plan(planID)
	if err != nil {
		return err
	}
	_, err = p.update.check(raw)
	return err
}

// BindingParameters checks the parameters of a bind request, as InstanceParameters does. The role is read-write unless
// the request names another one; TLS is "" unless the request sets it.
func (c *Catalog) BindingParameters(planID string, raw json.RawMessage) (plan.BindingParameters, error) {
	p, err := c.plan(planID)
	if err != nil {
		return plan.BindingParameters{}, err
	}
	given, err := p.bind.check(raw)
	if err != nil {
		return plan.BindingParameters{}, err
	}
	parameters := plan.BindingParameters{Role: plan.Role(given["role"]), TLS: plan.TLS(given["tls"])}
	switch parameters.Role {
	case "":
		parameters.Role = plan.ReadWrite
	case plan.ReadOnly, plan.ReadWrite, plan.Admin:
	default:
		return plan.BindingParameters{}, parameterErrorf("Parameter %q must be one of %s, %s, %s.", "role",
			plan.ReadOnly, plan.ReadWrite, plan.Admin)
	}
	switch parameters.TLS {
	case "", plan.TLSOptional, plan.TLSRequired:
	default:
		return plan.BindingParameters{}, parameterErrorf("Parameter %q must be one of %s, %s.", "tls",
			plan.TLSOptional, plan.TLSRequired)
	}
	return parameters, nil
}

// check returns the parameters in raw. All are strings.
func (s parameterSchema) check(raw json.RawMessage) (map[string]string, error) {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	given, err := decodeParameters(raw)
	if err != nil {
		return nil, err
	}
	if err := s.checkNames(given); err != nil {
		return nil, err
	}
	var violation *jsonschema.ValidationError
	if err := s.compiled.Validate(given); errors.As(err, &violation) {
		return nil, violated(firstCause(violation))
	}
	texts := make(map[string]string, len(given))
	for _, name := range slices.Sorted(maps.Keys(given)) {
		text, ok := given[name].(string)
		if !ok {
			return nil, parameterErrorf("Parameter %q must be a string.", name)
		}
		texts[name] = text
	}
	return texts, nil
}

// checkNames refuses names that are not properties of the schema, even if it allows additional ones: a parameter
// without an effect would mislead the developer.
func (s parameterSchema) checkNames(given map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		switch {
		case slices.Contains(s.accepts, name):
		case len(s.accepts) == 0:
			return parameterErrorf("Parameter %q is not accepted. This plan takes no parameters here.", name)
		default:
			return parameterErrorf("Parameter %q is not known. This plan accepts %s.", name,
				strings.Join(s.accepts, ", "))
		}
	}
	return nil
}
