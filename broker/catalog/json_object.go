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
	value, err := decodeValue(decoder)
	if err != nil {
		return nil, err
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, parameterErrorf("The parameters must be a JSON object.")
	}
	return object, nil
}

func decodeValue(decoder *json.Decoder) (any, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, fmt.Errorf("decoding parameters: %w", err)
	}
	switch token {
	case json.Delim('{'):
		return decodeObject(decoder)
	case json.Delim('['):
		return decodeArray(decoder)
	default:
		return token, nil
	}
}

// maxNameBytes limits the names of parameters, which errors quote. No catalog has a name that long.
const maxNameBytes = 256

func decodeObject(decoder *json.Decoder) (map[string]any, error) {
	object := map[string]any{}
	for decoder.More() {
		key, err := decodeValue(decoder)
		if err != nil {
			return nil, err
		}
		name := key.(string) // valid JSON has only strings here
		if len(name) > maxNameBytes {
			return nil, parameterErrorf("A parameter has a name longer than %d bytes.", maxNameBytes)
		}
		if _, repeated := object[name]; repeated {
			return nil, parameterErrorf("Parameter %q is given twice.", name)
		}
		if object[name], err = decodeValue(decoder); err != nil {
			return nil, err
		}
	}
	_, err := decoder.Token()
	return object, err
}

func decodeArray(decoder *json.Decoder) ([]any, error) {
	array := []any{}
	for decoder.More() {
		item, err := decodeValue(decoder)
		if err != nil {
			return nil, err
		}
		array = append(array, item)
	}
	_, err := decoder.Token()
	return array, err
}
