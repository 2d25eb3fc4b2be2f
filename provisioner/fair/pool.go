// Package fair shares pools of slots out among organizations, so that none of them keeps the others from working.
package fair

// share is how many of a number of slots one organization may hold.
func share(slots int) int { return max(slots*3/4, 1) }

// Pool counts the slots that are held: of all of them, and of those of each server. An organization may hold three
// quarters of either. What belongs to no server, or to no organization ("" both), has only the other limits. A Pool is
// not safe for concurrent use.
type Pool struct {
	All, Each int // how many slots there are, and how many for each server

	held map[Holder]int
}

// Holder is an organization at a server. "" means all of them, each.
type Holder struct{ Server, Organization string }

// holders lists what counts a slot of h.
func (h Holder) holders() []Holder {
	all := []Holder{{}}
	if h.Server != "" {
		all = append(all, Holder{Server: h.Server})
	}
	if h.Organization != "" {
		all = append(all, Holder{Organization: h.Organization})
	}
	if h.Server != "" && h.Organization != "" {
		all = append(all, h)
	}
	return all
}

func (p *Pool) limit(h Holder) int {
	limit := p.All
	if h.Server != "" {
		limit = p.Each
	}
	if h.Organization != "" {
		limit = share(limit)
	}
	return limit
}

// Room reports whether h may have one more slot.
func (p *Pool) Room(h Holder) bool {
	for _, of := range h.holders() {
		if p.held[of] >= p.limit(of) {
			return false
		}
	}
	return true
}

// Take counts a slot for h, even if there is no room.
func (p *Pool) Take(h Holder) {
	if p.held == nil {
		p.held = map[Holder]int{}
	}
	for _, of := range h.holders() {
		p.held[of]++
	}
}

// Free gives a slot of h back.
func (p *Pool) Free(h Holder) {
	for _, of := range h.holders() {
		if p.held[of]--; p.held[of] <= 0 {
			delete(p.held, of)
		}
	}
}

// Held returns how many slots h holds.
func (p *Pool) Held(h Holder) int { return p.held[h] }

// Organizations lists the organizations that hold slots, and those that may have no more, of all or of a server.
func (p *Pool) Organizations() (holding, full []Holder) {
	for h, held := range p.held {
		if h.Organization == "" {
			continue
		}
		if h.Server == "" {
			holding = append(holding, h)
		}
		if held >= p.limit(h) {
			full = append(full, h)
		}
	}
	return holding, full
}
