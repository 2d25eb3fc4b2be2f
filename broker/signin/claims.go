package signin

import (
	"cmp"
	"encoding/json"
	"slices"
)

// claims are the parts of tokens that the dashboard uses.
type claims struct {
	FullName  string `json:"name"`
	Preferred string `json:"preferred_username"`
	UserName  string `json:"user_name"` // UAA's
	Email     string `json:"email"`

	Scope  words `json:"scope"` // from UAA: the person's groups that the client may see
	Groups words `json:"groups"`
	Roles  words `json:"roles"`
	Realm  struct {
		Roles words `json:"roles"`
	} `json:"realm_access"` // Keycloak's

	access *claims // of the access token, nil if it has none
}

func (c claims) name(subject string) string {
	return cmp.Or(c.UserName, c.Preferred, c.FullName, c.Email, subject)
}

// has reports whether the person is in a group, under any of the providers' names for groups.
func (c claims) has(group string) bool {
	for _, all := range []words{c.Scope, c.Groups, c.Roles, c.Realm.Roles} {
		if slices.Contains(all, group) {
			return true
		}
	}
	return c.access != nil && c.access.has(group)
}

// words is a claim that is a list or one word. A text with spaces is not a list: providers other than UAA write the
// requested scopes in this way, and everybody who signs in gets those (RFC 9068, section 2.2.3). Any other value counts
// as empty, because non-standard claims can have any type.
type words []string

func (w *words) UnmarshalJSON(raw []byte) error {
	var word string
	var list []any
	switch {
	case json.Unmarshal(raw, &word) == nil:
		*w = words{word}
	case json.Unmarshal(raw, &list) == nil:
		for _, item := range list {
			if word, ok := item.(string); ok {
				*w = append(*w, word)
			}
		}
	}
	return nil
}
