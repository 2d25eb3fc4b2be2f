package plan

import "encoding/json"

// Days is a number of days, if one is named. In JSON it is that number; leave out a zero value (omitzero).
type Days struct {
	Named bool
	N     int
}

// InDays names a number of days.
func InDays(n int) Days { return Days{Named: true, N: n} }

func (d Days) MarshalJSON() ([]byte, error) { return json.Marshal(d.N) }

func (d *Days) UnmarshalJSON(raw []byte) error {
	d.Named = true
	return json.Unmarshal(raw, &d.N)
}
