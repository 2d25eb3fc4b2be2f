package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// compileSchema returns an error that completes the sentence "the JSON schema …".
func compileSchema(document map[string]any) (*jsonschema.Schema, error) {
	const address = "catalog:schema"
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft4)
	// Platforms do not follow external references, so the broker must not either.
	compiler.UseLoader(jsonschema.SchemeURLLoader{})
	if err := compiler.AddResource(address, document); err != nil {
		return nil, schemaError(err)
	}
	schema, err := compiler.Compile(address)
	if err != nil {
		return nil, schemaError(err)
	}
	return schema, nil
}

func schemaError(err error) error {
	var external *jsonschema.LoadURLError
	if errors.As(err, &external) {
		return fmt.Errorf("refers to %s: external references are refused", external.URL)
	}
	var mismatch *jsonschema.ValidationError
	if invalid := new(jsonschema.SchemaValidationError); errors.As(err, &invalid) && errors.As(invalid.Err, &mismatch) {
		at := firstCause(mismatch)
		return fmt.Errorf("is not valid draft-04 at /%s", strings.Join(at.InstanceLocation, "/"))
	}
	return fmt.Errorf("cannot be used: %w", err)
}

// firstCause returns the first violation by place and keyword, because an error names only one.
func firstCause(violation *jsonschema.ValidationError) *jsonschema.ValidationError {
	for len(violation.Causes) > 0 {
		violation = slices.MinFunc(violation.Causes, func(a, b *jsonschema.ValidationError) int {
			return cmp.Or(slices.Compare(a.InstanceLocation, b.InstanceLocation),
				slices.Compare(a.ErrorKind.KeywordPath(), b.ErrorKind.KeywordPath()))
		})
	}
	return violation
}
