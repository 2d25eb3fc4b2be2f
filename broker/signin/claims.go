package signin

import (
	"cmp"
	"encoding/json"
	"slices"
)

// claims is what tokens say of a person, as far as it matters here.
type claims struct {
	FullName  string `json:"name"`
	Preferred string `json:"preferred_username"`
	UserName  string `json:"user_name"` // UAA's
	Email     string `json:"email"`

	Scope  words `json:"scope"` // of UAA, the groups that the person is in and the client may know
	Groups words `json:"groups"`
	Roles  words `json:"roles"`
	Realm  struct {
		Roles words `json:"roles"`
	} `json:"realm_access"` // Keycloak's

	access *claims // of the access token, nil if it tells nothing
}

// name is what to show of who has this subject.
func (c claims) name(subject string) string {
	return cmp.Or(c.UserName, c.Preferred, c.FullName, c.Email, subject)
}

// has tells whether the person is in a group, whatever the provider calls that.
func (c claims) has(group string) bool {
	for _, all := range []words{c.Scope, c.Groups, c.Roles, c.Realm.Roles} {
		if slices.Contains(all, group) {
			return true
		}
	}
	return c.access != nil && c.access.has(group)
}

// words is a claim that is a list, or one word. A text with spaces is no list: that is how other providers than UAA
// write the scopes that were asked for, which anybody gets who signs in (RFC 9068, section 2.2.3). Whatever else it is
// has no words: providers put into claims that are not the standard's what they like.
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
