package plan

// Set holds the plans of a catalog, in the order of the file.
type Set []Plan

// Get returns the plan of that id. A plan may be removed from the catalog while instances have it: for an id that is
// not there, Get returns a stand-in that is Removed, has the id as its name, and has no limits.
func (s Set) Get(id string) Plan {
	for n := range s {
		if s[n].ID == id {
			return s[n]
		}
	}
	return Plan{ID: id, Name: id, Removed: true}
}

// Of returns the plan of an instance as Get does. A stand-in also has the instance's service offering and kind, and the
// usual Async of plans of that kind.
func (s Set) Of(id, serviceID string, kind Kind) Plan {
	p := s.Get(id)
	if !p.Removed {
		return p
	}
	p.ServiceID, p.Kind, p.Async = serviceID, kind, AsyncNever
	if kind == Dedicated {
		p.Async = AsyncRequired
	}
	return p
}
