package mysqladmin

// Role is what an account may do inside its database; no role reaches outside it.
type Role string

const (
	ReadOnly  Role = "read-only"
	ReadWrite Role = "read-write" // all that an application, its migrations and its dumps need
	Admin     Role = "admin"      // every privilege that exists inside the database; EVENT as Account.Events says
)
