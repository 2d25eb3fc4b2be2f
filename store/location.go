package store

// LocationKind says whether an instance shares its server with others.
type LocationKind string

const (
	OnShared    LocationKind = "shared"    // a database on a shared server
	OnDedicated LocationKind = "dedicated" // a server of its own, which a launcher runs
)

// Location is where the data of an instance live.
type Location struct {
	Kind     LocationKind
	Server   string // the shared server's name, or the dedicated server's id at its launcher
	Launcher string // who runs the dedicated server; "" for a shared one
}

// SharedLocation is a database on the shared server of that name.
func SharedLocation(name string) Location { return Location{Kind: OnShared, Server: name} }

// DedicatedLocation is a server of its own that has that id at its launcher.
func DedicatedLocation(launcher, id string) Location {
	return Location{Kind: OnDedicated, Server: id, Launcher: launcher}
}

// Dedicated reports whether the instance has a server of its own.
func (l Location) Dedicated() bool { return l.Kind == OnDedicated }

// Shared reports whether the instance is a database on a shared server.
func (l Location) Shared() bool { return l.Kind == OnShared }

// DedicatedServers stands for all dedicated servers together, where a shared server goes by its name.
const DedicatedServers = ""

// columns returns what the table instance has in server, dedicated_id and launcher.
func (l Location) columns() (server, dedicatedID, launcher string) {
	if l.Dedicated() {
		return "", l.Server, l.Launcher
	}
	return l.Server, "", ""
}

// locationColumns yields the fields of Location, in their order, from the table instance, which is named i.
const locationColumns = "i.location_kind, i.server || i.dedicated_id, " + launcherColumn

// launcherColumn is "" of a shared server, on which the column means nothing.
const launcherColumn = "CASE i.location_kind WHEN 'dedicated' THEN i.launcher ELSE '' END"
