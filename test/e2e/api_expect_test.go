package e2e

import (
	"strings"
	"testing"

	"mysql-broker/test/testdrive"
)

// expectRefusal fails the test unless the response has this status and a description with each of the words.
func expectRefusal(t *testing.T, r testdrive.Response, status int, words ...string) {
	t.Helper()
	r.Expect(t, status)
	for _, word := range words {
		if !strings.Contains(r.String("description"), word) {
			t.Errorf("the description %q does not say %q", r.String("description"), word)
		}
	}
}

// expectError fails the test unless the response is a 422 with this error code and a description.
func expectError(t *testing.T, r testdrive.Response, code string, words ...string) {
	t.Helper()
	expectRefusal(t, r, 422, words...)
	if r.String("error") != code || r.String("description") == "" {
		t.Errorf("the answer has not the code %s and a description: %s", code, r.Raw)
	}
}

// expectEmpty fails the test unless the response is {} with this status.
func expectEmpty(t *testing.T, r testdrive.Response, status int) {
	t.Helper()
	if r.Expect(t, status); len(r.Body) != 0 {
		t.Errorf("the body is not {}: %s", r.Raw)
	}
}

// field walks down objects, to nil where there is nothing.
func field(object map[string]any, names ...string) any {
	var value any = object
	for _, name := range names {
		inner, _ := value.(map[string]any)
		value = inner[name]
	}
	return value
}
