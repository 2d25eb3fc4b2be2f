package testdrive

import (
	"strings"
	"testing"
)

// ExpectRefusal fails the test unless the response has this status and a description with each of the words.
func ExpectRefusal(t *testing.T, r Response, status int, words ...string) {
	t.Helper()
	r.Expect(t, status)
	for _, word := range words {
		if !strings.Contains(r.String("description"), word) {
			t.Errorf("the description %q does not say %q", r.String("description"), word)
		}
	}
}

// ExpectError fails the test unless the response is a 422 with this error code and a description.
func ExpectError(t *testing.T, r Response, code string, words ...string) {
	t.Helper()
	ExpectRefusal(t, r, 422, words...)
	if r.String("error") != code || r.String("description") == "" {
		t.Errorf("the answer has not the code %s and a description: %s", code, r.Raw)
	}
}

// ExpectEmpty fails the test unless the response is {} with this status.
func ExpectEmpty(t *testing.T, r Response, status int) {
	t.Helper()
	if r.Expect(t, status); len(r.Body) != 0 {
		t.Errorf("the body is not {}: %s", r.Raw)
	}
}

// Field walks down objects, to nil where there is nothing.
func Field(object map[string]any, names ...string) any {
	var value any = object
	for _, name := range names {
		inner, _ := value.(map[string]any)
		value = inner[name]
	}
	return value
}
