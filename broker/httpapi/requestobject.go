package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"
)

// checkRequestObject returns the JSON object for brokerapi, or a sentence that says what is wrong with the body. It
// omits fields that are null, because in this API null means absent. It decodes into d, as brokerapi will, to find
// fields of the wrong type.
func checkRequestObject(body []byte, d details) (object []byte, fault string) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, "The request body is empty where a JSON object is expected."
	}
	if !utf8.Valid(body) {
		return nil, "The request body is not valid UTF-8."
	}
	if !json.Valid(body) {
		return nil, "The request body is not one well-formed JSON document."
	}
	fields, fault := topLevelFields(body)
	if fault != "" {
		return nil, fault
	}
	object, err := json.Marshal(fields)
	if err != nil {
		return nil, "The request body is not one well-formed JSON document."
	}
	return object, typeFault(object, d)
}

// topLevelFields returns the fields that are not null. Names that differ only in case count as the same, because
// brokerapi accepts either.
func topLevelFields(body []byte) (fields map[string]json.RawMessage, fault string) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return nil, "The request body is not a JSON object."
	}
	fields = map[string]json.RawMessage{}
	seen := map[string]bool{}
	for decoder.More() {
		var value json.RawMessage
		token, err := decoder.Token()
		if err == nil {
			err = decoder.Decode(&value)
		}
		name, isName := token.(string)
		if err != nil || !isName {
			return nil, "The request body is not one well-formed JSON document."
		}
		folded := strings.ToLower(strings.ToUpper(name))
		if seen[folded] {
			return nil, fmt.Sprintf("The request body has the field %q twice.", clip(name))
		}
		seen[folded] = true
		if string(value) != "null" {
			fields[name] = value
		}
	}
	return fields, ""
}

// typeFault returns a sentence about the first field of a wrong type, or "".
func typeFault(object []byte, d details) string {
	err := json.Unmarshal(object, d)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		return fmt.Sprintf("The field %q of the request body must be %s.", wrong.Field, jsonType(wrong.Type))
	case err != nil:
		return "The request body has a field of a wrong type."
	}
	for _, f := range []struct {
		name  string
		value json.RawMessage
	}{
		{"parameters", d.GetRawParameters()},
		{"context", d.GetRawContext()},
	} {
		if len(f.value) > 0 && f.value[0] != '{' {
			return fmt.Sprintf("The field %q of the request body must be an object.", f.name)
		}
	}
	return ""
}

func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	default:
		return "an object"
	}
}
