package launcher

import "context"

// Trouble is why a server does not run, or was ended. Its values are the label "trouble" of a metric.
type Trouble string

// Troubles that a launcher can see.
const (
	NodeLost    Trouble = "node-lost"     // its node does not respond, so that nothing may start it elsewhere
	Evicted     Trouble = "evicted"       // its node needed the room
	OutOfMemory Trouble = "out-of-memory" // it was killed within the last hour, because it used more than its plan has
	VolumeFull  Trouble = "volume-full"   // it ended within the last hour, or hangs, because its volume was full
	Crashing    Trouble = "crashing"      // it ends again and again
	NotReady    Trouble = "not-ready"     // it runs, and has not accepted connections for minutes
	NoImage     Trouble = "no-image"      // its image cannot be fetched
	NoNode      Trouble = "no-node"       // no node has room for it
	NoPod       Trouble = "no-pod"        // it is to run, and its cluster has no pod of it
)

// Roomer is a Launcher whose servers share a disk.
type Roomer interface {
	Launcher

	// Room returns an error that wraps ErrNoRoom if the disk is so full that no account of a server may be changed.
	Room() error
}

// AllTroubles lists every Trouble.
func AllTroubles() []Trouble {
	return []Trouble{NodeLost, Evicted, OutOfMemory, VolumeFull, Crashing, NotReady, NoImage, NoNode, NoPod}
}

// Observer is a Launcher that sees why servers do not run.
type Observer interface {
	Launcher

	// Troubles returns the servers in trouble, by id. A launcher that supervises watches its servers and returns at once;
	// any other lists them.
	Troubles(ctx context.Context) (map[string]Trouble, error)
}
