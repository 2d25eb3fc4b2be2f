package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"mysql-broker/store"
)

// Problem is what is wrong with a thing.
type Problem string

const (
	Orphan      Problem = "orphan"      // it exists, but nothing needs it any more
	Missing     Problem = "missing"     // it must exist, but does not
	Kept        Problem = "kept"        // its creation failed, but it exists: it holds data, or could not be dropped
	Blocked     Problem = "blocked"     // it is being deleted, and prepared XA transactions may block that
	Abandoned   Problem = "abandoned"   // it is neither complete nor deleted, and no task works on it
	Unreachable Problem = "unreachable" // its contents are not known
	Refused     Problem = "refused"     // a launcher would refuse servers of a plan
	Unrecorded  Problem = "unrecorded"  // it has a name like the broker's, but no record
	Stray       Problem = "stray"       // an account may use an instance's database, but has no record
	Limited     Problem = "limited"     // the broker's account on it may not do everything, or a launcher gives advice
	// Deviating things have other rights than they must (an account, which may also be locked, or the broker at a
	// launcher), another time (a clock), or a mixture of data (a database).
	Deviating Problem = "deviating"
)

// problems in the order of the report.
var problems = []Problem{Orphan, Stray, Missing, Deviating, Kept, Blocked, Abandoned, Unreachable, Limited, Refused,
	Unrecorded}

// Kinds of things besides those of store.Resource.
const (
	sharedServer  = "shared server"
	node          = "node" // of a shared server that is a cluster
	launcher      = "launcher"
	instance      = "instance"
	binding       = "binding"
	dedicatedPlan = "plan"
	credential    = "credential" // in CredHub
	credHub       = "CredHub"
	clocks        = "clock"
	objectStore   = "object store"
)

// kinds in the order in which they are reported and repaired: a database before the accounts that may be definers of
// its views.
var kinds = []string{store.DatabaseResource, store.AccountResource, store.DedicatedResource, instance, binding,
	credential, sharedServer, node, launcher, credHub, objectStore, clocks, dedicatedPlan}

// Finding is a difference between the records and the servers. It holds no secret.
type Finding struct {
	Problem    Problem       `json:"problem"`
	Kind       string        `json:"kind"`             // of the thing, for people
	Server     string        `json:"server,omitempty"` // the shared server's name, "" for a dedicated server
	Name       string        `json:"name,omitempty"`   // on that server; "" for instances and bindings
	InstanceID string        `json:"instance_id,omitempty"`
	BindingID  string        `json:"binding_id,omitempty"`
	Age        time.Duration `json:"-"`          // since it was recorded, 0 without a record
	Repairable bool          `json:"repairable"` // Repair can repair it
	ToDo       string        `json:"to_do"`      // what to do, in the imperative
}

// Identity has what successive reports of the same thing and problem have in common.
func (f Finding) Identity() Finding {
	f.Age, f.Repairable, f.ToDo = 0, false, ""
	return f
}

func compareFindings(a, b Finding) int {
	return cmp.Or(cmp.Compare(slices.Index(problems, a.Problem), slices.Index(problems, b.Problem)),
		cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind)),
		cmp.Compare(a.Server, b.Server), cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.InstanceID, b.InstanceID), cmp.Compare(a.BindingID, b.BindingID))
}

func about(problem Problem, r store.Resource, toDo string) Finding {
	return Finding{Problem: problem, Kind: r.Kind, Server: r.Server, Name: r.Name, InstanceID: r.InstanceID,
		BindingID: r.BindingID, Age: r.Age, ToDo: toDo}
}

func orphan(r store.Resource) Finding {
	f := about(Orphan, r, "drop it")
	f.Repairable = true
	if r.Kind == store.DedicatedResource {
		f.ToDo = "destroy it"
	}
	return f
}

func abandonedFinding(a store.Abandoned) Finding {
	f := Finding{Problem: Abandoned, Kind: instance, InstanceID: a.InstanceID, BindingID: a.BindingID, Age: a.Age,
		ToDo: "delete the service instance (again)"}
	if a.BindingID != "" {
		f.Kind, f.ToDo = binding, "delete the service binding (again)"
	}
	return f
}

func unreachable(server, launcherName string, err error, resources int) Finding {
	f := Finding{Problem: Unreachable, Kind: sharedServer, Server: server, Name: server}
	if server == store.DedicatedServers {
		f.Kind, f.Name = launcher, launcherName
	}
	f.ToDo = fmt.Sprintf("make it reachable, or add it to the configuration again; "+
		"the state of the %d resources recorded for it is unknown: %v", resources, err)
	return f
}

func lostNode(server, addr string, why error) Finding {
	return Finding{Problem: Unreachable, Kind: node, Server: server, Name: addr,
		ToDo: fmt.Sprintf("start it, or remove it from the server's uri: the cluster may not survive the loss of another "+
			"node: %v", why)}
}

// Counts reports whether somebody has to do something about the finding. Others are only shown.
func (p Problem) Counts() bool { return p != Unrecorded && p != Limited }
