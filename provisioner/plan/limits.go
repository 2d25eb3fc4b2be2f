package plan

// Limits say how many service instances there may be, of a plan or of all plans. 0 means any number.
type Limits struct {
	Instances       int // altogether
	PerOrganization int // of each organization
}

// Any reports whether there is a limit.
func (l Limits) Any() bool { return l != Limits{} }
