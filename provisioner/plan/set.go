package plan

// Set holds the plans of a catalog, in the order of the file.
type Set []Plan

// Get returns the plan of that id. Instances may outlive their plan in the catalog: for an id that is not there, Get
// returns a stand-in that is Removed, has the id for its name too, and has no limits, as nobody knows them any more.
func (s Set) Get(id string) Plan {
	for n := range s {
		if s[n].ID == id {
			return s[n]
		}
	}
	return Plan{ID: id, Name: id, Removed: true}
}

// Of returns the plan of an instance as Get does. A stand-in has the instance's service offering and kind besides, and
// is answered as shared and dedicated plans usually are.
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
