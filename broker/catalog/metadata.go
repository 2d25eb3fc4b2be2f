package catalog

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
)

// readMetadata reads the free-form metadata of an offering or a plan. Only keys that platforms use have a fixed type.
// https://github.com/openservicebrokerapi/servicebroker/blob/v2.17/profile.md#service-metadata
func readMetadata[T any](o *object) *T {
	fields, ok := o.object("metadata")
	if !ok {
		return nil
	}
	metadata := new(T)
	data, err := json.Marshal(fields.plain())
	if err == nil {
		err = json.Unmarshal(data, metadata)
	}
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mismatch):
		key, _, _ := strings.Cut(mismatch.Field, ".")
		o.found.add(max(fields.line, fields.fields[key].line), "%q in the metadata of %s holds a JSON %s where %s belongs",
			mismatch.Field, o.what, mismatch.Value, jsonType(mismatch.Type))
	case err != nil:
		o.reject("metadata", "expressible in JSON")
	}
	return metadata
}

func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number"
	default:
		return "a string"
	}
}
