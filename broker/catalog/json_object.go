package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// decodeParameters decodes a JSON object. Unlike json.Unmarshal it refuses repeated keys, because parsers differ in
// which value they use (RFC 8259, section 4), and preserves the notation of numbers.
func decodeParameters(raw json.RawMessage) (map[string]any, error) {
	if !json.Valid(raw) { // it also limits the nesting, unlike Token
		return nil, parameterErrorf("The parameters are not valid JSON.")
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return nil, parameterErrorf("The parameters must be a JSON object.")
	}
	object := map[string]any{}
	for decoder.More() {
		token, err := decoder.Token()
		var value any
		if err == nil {
			err = decoder.Decode(&value)
		}
		if err != nil {
			return nil, fmt.Errorf("decode the parameters: %w", err)
		}
		name := token.(string) // valid JSON has only strings here
		if len(name) > maxNameBytes {
			return nil, parameterErrorf("A parameter has a name longer than %d bytes.", maxNameBytes)
		}
		if _, repeated := object[name]; repeated {
			return nil, parameterErrorf("Parameter %q is given twice.", name)
		}
		object[name] = value
	}
	return object, nil
}

// maxNameBytes limits the names of parameters, which errors quote. No catalog has a name that long.
const maxNameBytes = 256
