package store

// LocationKind says whether an instance shares its server with others.
type LocationKind string

const (
	OnShared    LocationKind = "shared"    // a database on a shared server
	OnDedicated LocationKind = "dedicated" // a dedicated server, which a launcher runs
)

// Location is where the data of an instance live.
type Location struct {
	Kind     LocationKind
	Server   string // the shared server's name, or the dedicated server's id at its launcher
	Launcher string // the launcher of a dedicated server; "" for a shared one
}

// SharedLocation returns the location of a database on the shared server of that name.
func SharedLocation(name string) Location { return Location{Kind: OnShared, Server: name} }

// DedicatedLocation returns the location of the dedicated server that has that id at its launcher.
func DedicatedLocation(launcher, id string) Location {
	return Location{Kind: OnDedicated, Server: id, Launcher: launcher}
}

// Dedicated reports whether the instance has a dedicated server.
func (l Location) Dedicated() bool { return l.Kind == OnDedicated }

// Shared reports whether the instance is a database on a shared server.
func (l Location) Shared() bool { return l.Kind == OnShared }

// DedicatedServers stands for all dedicated servers together, in place of a shared server's name.
const DedicatedServers = ""

// columns returns the values of the columns server, dedicated_id and launcher in the table instance.
func (l Location) columns() (server, dedicatedID, launcher string) {
	if l.Dedicated() {
		return "", l.Server, l.Launcher
	}
	return l.Server, "", ""
}

// locationColumns yields the fields of Location, in their order, from the table instance, which is named i.
const locationColumns = "i.location_kind, i.server || i.dedicated_id, " + launcherColumn

// launcherColumn is "" for a shared server, for which the column has no meaning.
const launcherColumn = "CASE i.location_kind WHEN 'dedicated' THEN i.launcher ELSE '' END"
