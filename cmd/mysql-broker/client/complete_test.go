package client

import (
	"strings"
	"testing"
)

func TestCompletion(t *testing.T) {
	t.Parallel()
	u := newCaller(t, startEndpoint(t))
	u.ok("create-service", "sync", "mine")
	u.ok("create-service", "sync", "other")
	u.ok("create-service-key", "mine", "k")
	for typed, want := range map[string]string{
		"service ":                    "mine other",
		"delete-service-key mine ":    "k",
		"service-key nobodys ":        "",
		"service mine ":               "",
		"create-service-key ":         "mine other",
		"create-service-key mine ":    "",
		"create-service ":             "db/sync db/async db/failing db/broken db/held other/async",
		"create-service db/sync ":     "",
		"update-service mine --plan ": "db/sync db/async db/failing db/broken db/held other/async",
	} {
		out := u.ok(append([]string{"__complete"}, strings.Split(typed, " ")...)...)
		words, _, _ := strings.Cut(out, ":") // and how they are to be used
		if got := strings.Join(strings.Fields(words), " "); got != want {
			t.Errorf("%q is completed by %q, not %q", typed, got, want)
		}
	}
}
