package catalog

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"code.cloudfoundry.org/brokerapi/v13/domain"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"mysql-broker/provisioner/plan"
)

const (
	draft4        = "http://json-schema.org/draft-04/schema#"
	maxSchemaSize = 64 << 10 // bytes of JSON, Cloud Controller's limit
)

// parameterSchema is the JSON schema of the parameters of one kind of request.
type parameterSchema struct {
	document map[string]any
	compiled *jsonschema.Schema
	accepts  []string // names of parameters, sorted
}

// requestSchemas are the schemas of the three requests that have parameters.
type requestSchemas struct {
	create, update, bind parameterSchema
}

// readSchemas reads the schemas of a plan. A request without a schema accepts no parameters, and platforms get a schema
// that says so. This function names the parameters that the broker supports: a schema can omit some of them, but not
// add any.
// https://github.com/openservicebrokerapi/servicebroker/blob/v2.17/spec.md#schemas-object
func readSchemas(plan *object) requestSchemas {
	s := requestSchemas{noParameters(), noParameters(), noParameters()}
	schemas, ok := plan.object("schemas")
	if !ok {
		return s
	}
	if instance, ok := schemas.object("service_instance"); ok {
		readSchema(instance, "create", &s.create, "charset", "collation", "clone_from", "bootstrap", restoreFrom,
			restoreToTime, undelete, keepDeletedDays)
		readSchema(instance, "update", &s.update, keepDeletedDays, backUp, restoreBackup, confirm)
		instance.close()
	}
	if binding, ok := schemas.object("service_binding"); ok {
		readSchema(binding, "create", &s.bind, "role", "tls", bindingTTL)
		s.bind.checkDefaultRole(binding)
		binding.close()
	}
	schemas.close()
	return s
}

// shown returns the schemas as platforms see them, with all three present.
func (s requestSchemas) shown() *domain.ServiceSchemas {
	return &domain.ServiceSchemas{
		Instance: domain.ServiceInstanceSchema{
			Create: domain.Schema{Parameters: s.create.document},
			Update: domain.Schema{Parameters: s.update.document},
		},
		Binding: domain.ServiceBindingSchema{Create: domain.Schema{Parameters: s.bind.document}},
	}
}

func noParameters() parameterSchema {
	document := map[string]any{"$schema": draft4, "type": "object", "additionalProperties": false}
	compiled, err := compileSchema(document)
	if err != nil {
		panic("the schema that accepts no parameters is wrong: " + err.Error())
	}
	return parameterSchema{document: document, compiled: compiled}
}

func readSchema(parent *object, key string, into *parameterSchema, understood ...string) {
	holder, ok := parent.object(key)
	if !ok {
		return
	}
	holder.require("parameters")
	if o, ok := holder.object("parameters"); ok {
		*into = newParameterSchema(o, understood)
	}
	holder.close()
}

func newParameterSchema(o *object, understood []string) parameterSchema {
	o.what = "the JSON schema"
	o.require("$schema")
	o.require("type")
	choose(o, "$schema", new(string), draft4, strings.TrimSuffix(draft4, "#"))
	choose(o, "type", new(string), "object")
	s := parameterSchema{document: o.plain(), accepts: o.properties(understood)}
	if data, err := json.Marshal(s.document); err != nil || len(data) > maxSchemaSize {
		o.found.add(o.line, "the JSON schema must be at most 64 KiB of JSON")
		return s
	}
	compiled, err := compileSchema(s.document)
	if err != nil {
		o.found.add(o.line, "the JSON schema %v", err)
	}
	s.compiled = compiled
	return s
}

// checkDefaultRole reports a schema that restricts the role but forbids the default role. Its author would expect a
// limit that does not apply to bindings without the parameter.
func (s parameterSchema) checkDefaultRole(o *object) {
	if s.compiled == nil || !slices.Contains(s.accepts, "role") {
		return
	}
	if s.compiled.Validate(map[string]any{"role": string(plan.ReadWrite)}) != nil {
		o.found.add(o.line, "the JSON schema must allow %s, the role of a binding that asks for none", plan.ReadWrite)
	}
}

// properties returns the names of the schema's properties, sorted.
func (o *object) properties(understood []string) []string {
	var fields []field
	keep(get[[]field](o, "properties", "an object", nil), &fields)
	names := map[string]bool{}
	for _, f := range fields {
		names[f.key] = true
		if !slices.Contains(understood, f.key) {
			o.found.add(f.line, "%q is not a parameter that the broker understands here", f.key)
		}
	}
	return slices.Sorted(maps.Keys(names))
}
