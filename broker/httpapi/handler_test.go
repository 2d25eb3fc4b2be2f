package httpapi

import "testing"

func TestNewRefusesUnsafeCredentials(t *testing.T) {
	t.Parallel()
	for name, credentials := range map[string][]Credential{
		"none":           nil,
		"empty user":     {{"", "p"}},
		"empty password": {{"u", "p"}, {"v", ""}},
		"colon":          {{"u:v", "p"}},
	} {
		if h, err := New(&recordingBroker{}, Config{Credentials: credentials}); err == nil || h != nil {
			t.Errorf("%s: handler %v, error %v", name, h, err)
		}
	}
}
